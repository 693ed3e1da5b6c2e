"""What every HTTP request must pass before any route sees it.

Pure ASGI, so that streams stay streams. In order: sizes, Host, Origin, credential, media type,
body. The guards only find the bearer token and pass it on; whether it is good the daemon decides,
and a route that hears UNAUTHENTICATED from the daemon answers with `reject_unauthenticated(scope)`,
so that the failure is counted against the peer.

Routes find in `scope["state"]`: `bearer` (str, or None on public paths) and `request_id` (str).
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from gateway.guard_policy import GuardPolicy, at_path
from gateway.limits import FailureLimiter, peer_of
from gateway.refusals import (
    INTERNAL,
    UNAUTHENTICATED,
    UNSUPPORTED_MEDIA_TYPE,
    Refusal,
    render_refusal,
    too_many_failures,
)
from gateway.request_head import RequestHead
from gateway.responder import Responder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.refusals import RenderRefusal

__all__ = ["GuardPolicy", "Guards", "reject_unauthenticated"]

_log = logging.getLogger(__name__)

# A refused body is read to its end within these bounds, so that its sender gets to read the answer
# instead of a reset connection.
_DRAIN_BYTES: Final = 4 * 1024 * 1024
_DRAIN_SECONDS: Final = 5.0

_TARGET_TOO_LONG: Final = Refusal(414, "uri_too_long", "the request line is too long")
_HEADERS_TOO_LARGE: Final = Refusal(431, "headers_too_large", "the headers are too large")
_NO_PATH: Final = Refusal(400, "bad_target", "the request target is not a path")
_WRONG_HOST: Final = Refusal(421, "wrong_host", "this server is not the host that Host names")
_WRONG_ORIGIN: Final = Refusal(403, "forbidden_origin", "pages of this origin may not call")
_CREDENTIAL_IN_QUERY: Final = Refusal(
    400, "credential_in_query", "a credential in the query is refused; send it as a header"
)
_BODY_TOO_LATE: Final = Refusal(408, "body_timeout", "the body did not arrive in time").closing()


class Guards:
    """The middleware around the whole gateway.

    `render` gives refusals the shape of a wire for paths below a prefix; other paths get
    `refusals.render_refusal`. `now` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        policy: GuardPolicy,
        *,
        render: Mapping[str, RenderRefusal] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._policy = policy
        self._render = dict(render or {})
        self._failures = FailureLimiter(policy.limits.auth_failures_per_minute, now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request or hand it on with its whole body."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        request = RequestHead(scope)
        request_id = request.request_id
        scope.setdefault("state", {}).update(
            bearer=None,
            request_id=request_id,
            auth_failures=self._failures,
            render_refusal=at_path(self._render, request.path, render_refusal),
        )
        responder = Responder(scope, receive, send)

        refusal = self._check(request)
        if refusal is None and request.has_body:
            body = await self._read_body(request, receive)
            if body is None:
                return
            if isinstance(body, Refusal):
                refusal = body
            else:
                receive = _replay(body, receive)
        elif refusal is not None and request.has_body:
            refusal = refusal if await _drain(request, receive) else refusal.closing()
        if refusal is not None:
            await refusal(scope, receive, responder.send)
            return
        try:
            await self._app(scope, receive, responder.send)
        except Exception:
            if request.is_websocket or (responder.started and not responder.complete):
                # Too late for another answer; the server cuts the connection.
                raise
            _log.exception("http.failed", extra={"request_id": request_id})
            if not responder.started:
                await INTERNAL(scope, receive, responder.send)

    def _check(self, request: RequestHead) -> Refusal | None:
        policy, limits = self._policy, self._policy.limits
        if request.line_bytes > limits.request_line_bytes:
            return _TARGET_TOO_LONG
        if request.header_bytes > limits.header_bytes:
            return _HEADERS_TOO_LARGE
        if not request.path.startswith("/"):
            return _NO_PATH
        host = request.only(b"host")
        if host is None or not policy.allows_host(host, request.scheme, request.port):
            return _WRONG_HOST
        if b"origin" in request.headers:
            origin = request.only(b"origin")
            if origin is None or not policy.allows_origin(origin, request.scheme, request.port):
                return _WRONG_ORIGIN
        bearer = request.bearer()
        if bearer is None and not policy.is_public(request.method, request.path):
            return reject_unauthenticated(request.scope)
        request.scope["state"]["bearer"] = bearer
        if request.has_credential_in_query():
            return _CREDENTIAL_IN_QUERY
        media_types = policy.media_types_at(request.path)
        if media_types is not None and not request.has_media_type(media_types):
            return UNSUPPORTED_MEDIA_TYPE
        return None

    async def _read_body(self, request: RequestHead, receive: Receive) -> bytes | Refusal | None:
        """The whole body, its refusal, or None when the client went away.

        Read here and not by the route, so that no broad `except` of a route or of a library can
        turn a refused body into another answer (E21).
        """
        limit = self._policy.body_bytes_at(request.path)
        complete = False
        if (request.content_length or 0) <= limit:
            body = bytearray()
            try:
                async with asyncio.timeout(self._policy.limits.body_seconds):
                    while not complete and len(body) <= limit:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            return None
                        body += message.get("body", b"")
                        complete = not message.get("more_body", False)
            except TimeoutError:
                return _BODY_TOO_LATE
            if len(body) <= limit:
                return bytes(body)
        refusal = Refusal(413, "body_too_large", f"a body is at most {limit} bytes at this path")
        complete = complete or await _drain(request, receive)
        return refusal if complete else refusal.closing()


def reject_unauthenticated(scope: Scope) -> Refusal:
    """Count a failed authentication of the peer; the answer is 401, or 429 beyond the limit.

    For routes that heard UNAUTHENTICATED from the daemon, and for the guards themselves. The
    answer is the same for a missing, a bad and an expired token (S-10).
    """
    failures: FailureLimiter = scope["state"]["auth_failures"]
    retry_after = failures.failed(peer_of(scope.get("client")))
    return too_many_failures(retry_after) if retry_after else UNAUTHENTICATED


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives a body that was read already, and then whatever follows it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


async def _drain(request: RequestHead, receive: Receive) -> bool:
    """Read the rest of a refused body and forget it; False if that would take too long."""
    if request.waits_to_send or (request.content_length or 0) > _DRAIN_BYTES:
        return False
    seen = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while seen <= _DRAIN_BYTES:
                message = await receive()
                seen += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return True
    except TimeoutError:
        pass
    return False
