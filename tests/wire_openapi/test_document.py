"""The OpenAPI document is valid, and the service does what it says under generated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openapi_spec_validator
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import CHECKS
from starlette.routing import Route as HttpRoute

from gateway.openapi.document import document
from gateway.openapi.routes import ROUTES
from tests.wire_openapi.conformance import check_answer

if TYPE_CHECKING:
    from tests.support.stack import Stack
    from tests.wire_openapi.client import Api

CALLS = [(route.path, route.method) for route in ROUTES]
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


async def test_the_document_is_valid_and_describes_every_route(api: Api) -> None:
    answer = await api.http.get("/openapi.json")
    served = answer.json()
    openapi_spec_validator.validate(served)
    assert served["openapi"].startswith("3.1")
    described = {
        (path, method.upper()) for path, item in served["paths"].items() for method in item
    }
    assert described == {(route.path, route.method) for route in ROUTES}
    assert all(HttpRoute(route.path, lambda _: None).path for route in ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/api/v1/tasks/t", 200, {"success": True, "data": {}}),
        ("GET", "/api/v1/tasks/t", 404, {"success": False}),
        ("GET", "/api/v1/tasks/t", 409, {}),
    ],
)
def test_an_answer_that_the_document_does_not_promise_is_found(
    method: str, path: str, status: int, body: Any
) -> None:
    with pytest.raises(AssertionError, match=path):
        check_answer(method, path, status, body)


@pytest.mark.parametrize(("path", "method"), CALLS)
def test_generated_requests_get_answers_of_the_document(
    stack: Stack, path: str, method: str
) -> None:
    schema = schemathesis.openapi.from_dict(document())
    schema.config.update(base_url=stack.http)
    operation = schema[path][method]
    checks = [CHECKS.get_one(name) for name in CHECKED]

    @seed(1)
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case: Any) -> None:
        headers = {"Authorization": f"Bearer {stack.token}"}
        case.call_and_validate(base_url=stack.http, headers=headers, checks=checks)

    run()
