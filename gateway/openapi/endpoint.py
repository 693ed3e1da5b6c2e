"""The routes of this wire: one answer, one envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute

from gateway import strict_json
from gateway.event_stream import EventStream
from gateway.guards import reject_unauthenticated
from gateway.openapi.call import Call
from gateway.openapi.document import document
from gateway.openapi.errors import ApiError
from gateway.openapi.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from gateway.context import GatewayContext
    from gateway.openapi.routes import Route

BASE_PATH: Final = "/api/v1"
DOCUMENT_PATH: Final = "/openapi.json"


class _Json(Response):
    """JSON as the gateway writes it: compact, integers of any size."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return strict_json.dumps(content).encode()


def routes(context: GatewayContext) -> list[BaseRoute]:
    """Every call of design.md 12, and the document."""
    described: list[BaseRoute] = [
        HttpRoute(route.path, _endpoint(route, context), methods=[route.method]) for route in ROUTES
    ]
    return [*described, HttpRoute(DOCUMENT_PATH, _document, methods=["GET"])]


async def _document(request: Request) -> Response:
    return JSONResponse(document())


def _endpoint(route: Route, context: GatewayContext) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def answer(request: Request) -> ASGIApp:
        call = Call.of(request, context)
        try:
            if route.body is not None:
                found = await route.handler(call, await call.body(route.body))
            else:
                found = await route.handler(call)
        except ApiError as refused:
            return _refusal(refused, call)
        if isinstance(found, EventStream):
            return found
        headers = {}
        if route.status == 202 and route.path in _LOCATED:
            headers["location"] = f"{route.path}/{found[_LOCATED[route.path]]}"
        return _Json({"success": True, "data": found}, route.status, headers)

    return answer


_LOCATED: Final = {f"{BASE_PATH}/tasks": "task_id", f"{BASE_PATH}/operations": "id"}
"""Where what was made can be read: the member of the answer that names it."""


def _refusal(refused: ApiError, call: Call) -> ASGIApp:
    if refused.is_unauthenticated:
        return reject_unauthenticated(call.request.scope)
    headers = {}
    if refused.retry_after_s is not None:
        headers["retry-after"] = str(refused.retry_after_s)
    return _Json(refused.body(call.caller.request_id), refused.status, headers)
