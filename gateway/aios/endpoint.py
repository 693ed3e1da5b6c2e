"""The HTTP side of the AIOS wire: POST and DELETE /aios/rpc, GET /aios/events (wire.md 1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from aiosd.aios_wire import errors
from aiosd.aios_wire.errors import AiosError
from gateway import sse, strict_json
from gateway.admission import TOO_MANY_STREAMS, Admission
from gateway.aios import accept, adapter_card, jsonrpc, sessions, watching
from gateway.aios.daemon_errors import from_daemon
from gateway.aios.feed import Feed
from gateway.aios.jsonrpc import ErrorStamp
from gateway.aios.method import Call, WireLimits, now_ms
from gateway.aios.methods import STREAMING, call_method
from gateway.context import GatewayContext, caller_of
from gateway.daemon_channel import DaemonError
from gateway.event_stream import EventStream
from gateway.guards import reject_unauthenticated
from gateway.refusals import NOT_ACCEPTABLE, Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.daemon_channel import Caller

PATH: Final = "/aios/rpc"
_JSON: Final = "application/json"
_RETRY_AFTER_S: Final = 1
_RECONNECT_MS: Final = 1000
"""How long readers are told to wait before they connect again."""

_NO_SUBSCRIPTION: Final = Refusal(
    400, "subscription_id_required", "the query needs subscription_id"
)
_UNKNOWN_SUBSCRIPTION: Final = Refusal(
    404, "subscription_not_found", "there is no such subscription"
)
_BAD_EVENT_ID: Final = Refusal(
    400, "bad_last_event_id", "Last-Event-ID is malformed or ahead of the task's events"
)
_NO_SESSION: Final = Refusal(400, "session_required", "the header AIOS-Session-Id is required")
_UNKNOWN_SESSION: Final = Refusal(404, "session_not_found", "there is no such session")
_UNAVAILABLE: Final = Refusal(
    503,
    "daemon_unavailable",
    "the task service is not running; ask again",
    ((b"retry-after", b"1"),),
)


def routes(context: GatewayContext) -> list[BaseRoute]:
    """The routes of this wire."""
    wire = Wire(context)
    return [
        Route(PATH, wire.rpc, methods=["POST", "DELETE"]),
        Route(watching.STREAM_PATH, wire.events, methods=["GET"]),
        Route(adapter_card.PATH, wire.card, methods=["GET"]),
    ]


class Wire:
    """The endpoints, and what they share."""

    def __init__(self, context: GatewayContext) -> None:
        settings = context.settings
        self._context = context
        self._admission = Admission(context.daemon)
        self._limits = WireLimits(
            max_message_bytes=settings.max_message_bytes,
            max_batch_size=settings.max_batch_size,
            sync_wait_ms=settings.sync_wait_ms,
            approval_timeout_ms=settings.approval_timeout_ms,
        )

    async def rpc(self, request: Request) -> ASGIApp:
        """Carry out calls, or end a session."""
        return await (self.post(request) if request.method == "POST" else self.delete(request))

    async def post(self, request: Request) -> ASGIApp:
        """Carry out a call or a batch; answer as JSON or as a stream."""
        form = accept.choose(request.headers.get("accept"))
        if form is None:
            return NOT_ACCEPTABLE
        message = jsonrpc.parse(await request.body(), max_batch_size=self._limits.max_batch_size)
        call = self._call(request)
        obstacle = await self._obstacle(request, call)
        if isinstance(obstacle, Refusal):
            return obstacle

        async def dispatch(item: jsonrpc.Request | jsonrpc.Notification) -> Any:
            if obstacle is not None:
                raise obstacle
            return await call_method(item, call)

        single = message.single_request
        if message.is_batch:
            # One key cannot stand for several calls.
            call.idempotency_key = ""
        if form == "stream" and single is not None and single.method in STREAMING:
            return await self._subscribed(request, single, dispatch, call)
        stamp = ErrorStamp(now_ms, call.caller.trace_id)
        failed: list[AiosError] = []

        async def watched(item: jsonrpc.Request | jsonrpc.Notification) -> Any:
            try:
                return await dispatch(item)
            except AiosError as error:
                failed.append(error)
                raise

        answers = await jsonrpc.answer_batch(message.items, watched, stamp)
        if call.is_unauthenticated:
            return self._unauthenticated(request, call)
        if not answers:
            return Response(status_code=202)
        if form == "stream":
            return _as_stream(answers)
        limited = single is not None and next(
            (error for error in failed if error.entry is errors.RATE_LIMITED), None
        )
        body = f"[{','.join(answers)}]" if message.is_batch else answers[0]
        if limited:
            return _rate_limited(body, limited)
        return Response(body, media_type=_JSON)

    async def delete(self, request: Request) -> ASGIApp:
        """End the session that the header names."""
        call = self._call(request)
        if not call.session_id:
            return _NO_SESSION
        try:
            result = await sessions.close(sessions.SessionParams(), call)
        except AiosError as error:
            if call.is_unauthenticated:
                return self._unauthenticated(request, call)
            if error.entry in (errors.SESSION_NOT_FOUND, errors.SESSION_EXPIRED):
                return _UNKNOWN_SESSION
            return _UNAVAILABLE
        return Response(strict_json.dumps(result), media_type=_JSON)

    async def card(self, request: Request) -> ASGIApp:
        """Tell what this server is and can do."""
        call = self._call(request)
        try:
            found = await adapter_card.card(call, PATH)
        except AiosError:
            return self._unauthenticated(request, call) if call.is_unauthenticated else _UNAVAILABLE
        return Response(strict_json.dumps(found), media_type=_JSON)

    async def events(self, request: Request) -> ASGIApp:
        """Serve the stream of a subscription."""
        if not accept.takes_stream(request.headers.get("accept")):
            return NOT_ACCEPTABLE
        subscription_id = request.query_params.get("subscription_id", "")
        if not subscription_id:
            return _NO_SUBSCRIPTION
        after: int | None = None
        last_event_id = request.headers.get("last-event-id")
        if last_event_id:
            try:
                after = sse.parse_event_id(last_event_id)
            except sse.MalformedEventIdError:
                return _BAD_EVENT_ID
        caller = caller_of(request)
        if not self._admission.has_stream_left(caller):
            return TOO_MANY_STREAMS
        feed = Feed(self._context.daemon, caller, subscription_id, after_sequence=after)
        try:
            await feed.open()
        except DaemonError as error:
            return self._refused_stream(request, caller, error)
        return self._stream(feed, caller)

    async def _subscribed(
        self,
        request: Request,
        single: jsonrpc.Request,
        dispatch: Callable[[jsonrpc.Request], Any],
        call: Call,
    ) -> ASGIApp:
        """The answer of a subscription as the first frame, then its events."""
        stamp = ErrorStamp(now_ms, call.caller.trace_id)
        try:
            if not self._admission.has_stream_left(call.caller):
                return TOO_MANY_STREAMS
            result = await dispatch(single)
        except AiosError as error:
            if call.is_unauthenticated:
                return self._unauthenticated(request, call)
            return _as_stream([jsonrpc.error_text(single.id, error, stamp)])
        feed = Feed(self._context.daemon, call.caller, result["subscription_id"])
        return self._stream(feed, call.caller, jsonrpc.result_text(single.id, result))

    def _stream(self, feed: Feed, caller: Caller, head: str | None = None) -> ASGIApp:
        async def chunks() -> AsyncGenerator[bytes, None]:
            with self._admission.stream(caller):
                try:
                    answer = b"" if head is None else sse.encode([_message(head)])
                    yield answer + sse.retry(_RECONNECT_MS)
                    async for chunk in feed.chunks():
                        yield chunk
                finally:
                    await feed.close()

        return EventStream(chunks(), self._context.stopping)

    async def _obstacle(self, request: Request, call: Call) -> Refusal | AiosError | None:
        """What stands in the way of every call of this request."""
        try:
            await self._admission.check(call.caller)
        except DaemonError as error:
            if error.is_unauthenticated:
                return self._unauthenticated(request, call)
            return from_daemon(error)
        version = request.headers.get("aios-version")
        if version is not None and not sessions.speaks(version):
            return sessions.version_mismatch(version)
        if call.session_id:
            try:
                await sessions.renew(call.session_id, call)
            except AiosError as error:
                if error.entry in (errors.SESSION_NOT_FOUND, errors.SESSION_EXPIRED):
                    return _UNKNOWN_SESSION
                return error
        return None

    def _call(self, request: Request) -> Call:
        return Call(
            daemon=self._context.daemon,
            caller=caller_of(request),
            limits=self._limits,
            session_id=request.headers.get("aios-session-id", ""),
            idempotency_key=request.headers.get("idempotency-key", ""),
        )

    def _unauthenticated(self, request: Request, call: Call) -> Refusal:
        self._admission.forget(call.caller)
        return reject_unauthenticated(request.scope)

    def _refused_stream(self, request: Request, caller: Caller, error: DaemonError) -> ASGIApp:
        if error.is_unauthenticated:
            self._admission.forget(caller)
            return reject_unauthenticated(request.scope)
        if error.reason in ("SUBSCRIPTION_NOT_FOUND", "TASK_NOT_FOUND"):
            return _UNKNOWN_SUBSCRIPTION
        if error.reason == "CURSOR_INVALID":
            return _BAD_EVENT_ID
        if error.reason == "PERMISSION_DENIED":
            return Refusal(403, "permission_denied", error.message)
        if error.reason == "RATE_LIMITED":
            return TOO_MANY_STREAMS
        return _UNAVAILABLE


class _Frames:
    """A stream that holds nothing but answers."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = Response(self._body, media_type=sse.MEDIA_TYPE)
        await response(scope, receive, send)


def _as_stream(answers: list[str]) -> ASGIApp:
    return _Frames(sse.encode(_message(answer) for answer in answers))


def _message(text: str) -> sse.Frame:
    return sse.Frame(text, event="message")


def _rate_limited(body: str, error: AiosError) -> Response:
    seconds = -(-int(error.data.get("retry_after_ms", 1000 * _RETRY_AFTER_S)) // 1000)
    headers = {"retry-after": str(max(seconds, _RETRY_AFTER_S))}
    return Response(body, status_code=429, headers=headers, media_type=_JSON)
