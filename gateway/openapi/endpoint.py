"""The routes of this wire: one answer, one envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute

from gateway import strict_json
from gateway.admission import TOO_MANY_STREAMS, Admission
from gateway.daemon_channel import DaemonError
from gateway.event_stream import EventStream
from gateway.guards import reject_unauthenticated
from gateway.openapi.call import Call
from gateway.openapi.document import document
from gateway.openapi.errors import ApiError, from_daemon
from gateway.openapi.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.context import GatewayContext
    from gateway.openapi.routes import Route

    Handle = Callable[[Call], Awaitable[ASGIApp]]

BASE_PATH: Final = "/api/v1"
DOCUMENT_PATH: Final = "/openapi.json"


class _Json(Response):
    """JSON as the gateway writes it: compact, integers of any size."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return strict_json.dumps(content).encode()


def routes(context: GatewayContext) -> list[BaseRoute]:
    """Every call of design.md 12, and the document."""
    admission = Admission(context.daemon)

    def serve(path: str, method: str, handle: Handle) -> HttpRoute:
        async def endpoint(request: Request) -> ASGIApp:
            call = Call.of(request, context)
            try:
                await _admit(admission, call)
                return await handle(call)
            except ApiError as refused:
                return _refusal(refused, call, admission)

        return HttpRoute(path, endpoint, methods=[method])

    described: list[BaseRoute] = [
        serve(route.path, route.method, _handler(route, admission)) for route in ROUTES
    ]
    return [*described, serve(DOCUMENT_PATH, "GET", _document)]


async def _admit(admission: Admission, call: Call) -> None:
    try:
        await admission.check(call.caller)
    except DaemonError as refused:
        raise from_daemon(refused) from None


async def _document(call: Call) -> ASGIApp:
    return JSONResponse(document())


def _handler(route: Route, admission: Admission) -> Handle:
    async def answer(call: Call) -> ASGIApp:
        if route.answer is None and not admission.has_stream_left(call.caller):
            return TOO_MANY_STREAMS
        if route.body is not None:
            found = await route.handler(call, await call.body(route.body))
        else:
            found = await route.handler(call)
        if isinstance(found, EventStream):
            return _counted(found, call, admission)
        headers = {}
        if route.status == 202 and route.path in _LOCATED:
            headers["location"] = f"{route.path}/{found[_LOCATED[route.path]]}"
        return _Json({"success": True, "data": found}, route.status, headers)

    return answer


def _counted(stream: EventStream, call: Call, admission: Admission) -> ASGIApp:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        with admission.stream(call.caller):
            await stream(scope, receive, send)

    return run


_LOCATED: Final = {f"{BASE_PATH}/tasks": "task_id", f"{BASE_PATH}/operations": "id"}
"""Where what was made can be read: the member of the answer that names it."""


def _refusal(refused: ApiError, call: Call, admission: Admission) -> ASGIApp:
    if refused.is_unauthenticated:
        admission.forget(call.caller)
        return reject_unauthenticated(call.request.scope)
    headers = {}
    if refused.retry_after_s is not None:
        headers["retry-after"] = str(refused.retry_after_s)
    return _Json(refused.body(call.caller.request_id), refused.status, headers)
