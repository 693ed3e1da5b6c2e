"""What the two HTTP bindings share: who asks, media types, bodies, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    JSONParseError,
)
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request as HttpRequest

from gateway import strict_json
from gateway.a2a import words
from gateway.a2a.call import REQUEST_STATE, Request
from gateway.context import caller_of
from gateway.daemon_channel import DaemonError
from gateway.event_stream import STALLED_SECONDS
from gateway.guards import reject_unauthenticated
from gateway.request_head import RequestHead

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive

    from gateway.admission import Admission
    from gateway.refusals import Refusal

JSON: Final = "application/json"
A2A_JSON: Final = "application/a2a+json"
_PARAMETERS: Final = (
    words.VERSION_PARAMETER,
    words.EXTENSIONS_PARAMETER,
    words.AFTER_PARAMETER,
    words.IDEMPOTENCY_PARAMETER,
)
# Names in a query are those of the headers, in any case.
_IN_QUERY: Final[tuple[str, ...]] = (
    words.VERSION_PARAMETER,
    words.EXTENSIONS_PARAMETER,
    words.AFTER_PARAMETER,
)


def request_of(http: HttpRequest) -> Request:
    """Our view of an HTTP request, made once and kept with it."""
    state = http.scope["state"]
    known: Request | None = state.get(REQUEST_STATE)
    if known is not None:
        return known
    query = {name.lower(): value for name, value in http.query_params.items()}
    parameters = {name: query[name] for name in _IN_QUERY if name in query}
    if "after" in query:
        parameters[words.AFTER_PARAMETER] = query["after"]
    for name in _PARAMETERS:
        values = http.headers.getlist(name)
        if values:
            parameters[name] = ",".join(values)
    made = Request(caller_of(http), parameters, base_url(http))
    state[REQUEST_STATE] = made
    return made


def base_url(http: HttpRequest) -> str:
    """The origin that the client called; the guards have checked that Host names us."""
    return f"{http.url.scheme}://{http.headers.get('host', http.url.netloc)}"


class ContextBuilder(ServerCallContextBuilder):
    """Hands our request through the SDK.

    Its front ends look at the version too, in a header and less strictly; we have looked already.
    """

    def build(self, request: HttpRequest) -> ServerCallContext:
        """The SDK's context of an HTTP request."""
        made = request_of(request)
        return ServerCallContext(
            state={
                REQUEST_STATE: made,
                "headers": {words.VERSION_PARAMETER: words.PROTOCOL_VERSION},
            },
            requested_extensions=set(made.extensions),
        )


async def refusal_of(http: HttpRequest, admission: Admission) -> Refusal | None:
    """The refusal of a token that the daemon does not know; None when it cannot be asked."""
    request = request_of(http)
    try:
        await admission.check(request.caller)
    except DaemonError as refused:
        if refused.is_unauthenticated:
            admission.forget(request.caller)
            return reject_unauthenticated(http.scope)
    return None


def check_media_type(http: HttpRequest, allowed: frozenset[str]) -> None:
    """Raise ContentTypeNotSupportedError for a body that is declared as something else."""
    if not RequestHead(http.scope).has_media_type(allowed):
        raise ContentTypeNotSupportedError(
            f"a body here is {' or '.join(sorted(allowed))} in UTF-8"
        )


def parse_json(body: bytes, limit: int) -> Any:
    """The value of a body. Raises JSONParseError; `limit` bounds one string, in bytes."""
    try:
        return strict_json.loads(body, max_string_bytes=limit)
    except strict_json.StrictJsonError as error:
        raise JSONParseError(error.message) from None


def with_body(http: HttpRequest, body: bytes) -> HttpRequest:
    """The same request with another body."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    rest: Receive = http.receive

    async def receive() -> Message:
        return pending.pop() if pending else await rest()

    return HttpRequest(http.scope, receive)


def finish(http: HttpRequest, response: Response, admission: Admission) -> ASGIApp:
    """The response with what every answer of this wire carries."""
    request = request_of(http)
    if request.is_unauthenticated:
        admission.forget(request.caller)
        return reject_unauthenticated(http.scope)
    if request.extensions:
        response.headers["A2A-Extensions"] = ", ".join(sorted(request.extensions))
    if isinstance(response, EventSourceResponse):
        # A reader who takes nothing for so long is cut off, as on the other wires.
        response.send_timeout = STALLED_SECONDS
        response.headers["Cache-Control"] = "no-store"
    return response
