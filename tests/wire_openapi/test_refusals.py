"""Whatever is sent, the answer is the envelope with a code that says what is wrong, never a 5xx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.wire_openapi.client import Api

HOSTILE: list[tuple[bytes, str]] = [
    (b"{", "invalid_json"),
    (b"\xff\xfe", "invalid_json"),
    (b'{"capability_id":NaN}', "invalid_json"),
    (b"[]", "invalid_body"),
    (b"1", "invalid_body"),
    (b"null", "invalid_body"),
    (b'{"a":1,"a":2}', "invalid_body"),
    (b'{"a":9007199254740993}', "invalid_body"),
    (b"[" * 100_000, "invalid_body"),
    (b'{"capability_id":"\\ud800"}', "invalid_body"),
    (b'{"capability_id":"a\\u0000"}', "invalid_body"),
    (b"", "missing_param"),
    (b"{}", "missing_param"),
    (b'{"capability_id":1}', "invalid_param"),
    (b'{"capability_id":null}', "invalid_param"),
    (b'{"capability_id":"lab.script","deadline_ms":true}', "invalid_param"),
    (b'{"capability_id":"lab.script","deadline_ms":604800001}', "invalid_param"),
    (b'{"capability_id":"lab.script","deadline_ms":-1}', "invalid_param"),
    (b'{"capability_id":"lab.script","priority":"now"}', "invalid_param"),
    (b'{"capability_id":"lab.script","metadata":[]}', "invalid_param"),
    (b'{"capability_id":"lab.script","arguments":{"steps":1}}', "invalid_param"),
    (b'{"capability_id":"lab.script","message":{"parts":[{"type":"odd"}]}}', "invalid_param"),
    (b'{"capability_id":"lab.script","message":5}', "invalid_param"),
    (b'{"capability_id":"lab.script","idempotency_key":""}', "invalid_param"),
]


@pytest.mark.parametrize("path", ["/tasks", "/invoke"])
@pytest.mark.parametrize(("body", "code"), HOSTILE)
async def test_a_hostile_body_is_refused_by_name(
    api: Api, path: str, body: bytes, code: str
) -> None:
    error = await api.refused(
        "POST", path, 400, code, content=body, headers={"content-type": "application/json"}
    )
    assert bool(error.get("param")) == (code in ("missing_param", "invalid_param"))


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/tasks?limit=0", 400, "invalid_param"),
        ("GET", "/tasks?limit=201", 400, "invalid_param"),
        ("GET", "/tasks?limit=1&limit=2", 400, "invalid_param"),
        ("GET", "/tasks?status=nothing", 400, "invalid_param"),
        ("GET", "/tasks?cursor=nothing", 400, "invalid_param"),
        ("GET", "/tasks/none", 404, "agent_not_found"),
        ("GET", "/product/tasks/none", 404, "agent_not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("DELETE", "/tasks", 405, "method_not_allowed"),
    ],
)
async def test_a_wrong_request_is_refused_by_name(
    api: Api, method: str, path: str, status: int, code: str
) -> None:
    await api.refused(method, path, status, code)


async def test_an_unknown_capability_is_not_found(api: Api) -> None:
    body = {"capability_id": "no.such"}
    error = await api.refused("POST", "/tasks", 404, "agent_not_found", json=body)
    assert error["param"] == "capability_id"


async def test_the_guards_speak_this_wires_envelope(api: Api) -> None:
    headers: dict[str, Any] = {"authorization": "Bearer nobody"}
    await api.refused("GET", "/tasks", 401, "unauthorized", headers=headers)
    await api.refused("GET", "/tasks", 401, "unauthorized", headers={"authorization": ""})
    await api.refused(
        "POST",
        "/tasks",
        413,
        "payload_too_large",
        content=b" " * 1_100_000,
        headers={"content-type": "application/json"},
    )
    await api.refused(
        "POST", "/tasks", 415, "invalid_body", content=b"{}", headers={"content-type": "text/plain"}
    )
    answer = await api.ask("GET", "/tasks/none", headers={"x-request-id": "mine-1"})
    assert answer.json()["error"]["request_id"] == "mine-1"
