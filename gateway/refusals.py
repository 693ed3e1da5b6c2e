"""Answers that no wire gives: small JSON, the same headers on each, no detail that could leak."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gateway import strict_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

Header = tuple[bytes, bytes]

SECURITY_HEADERS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""On every answer, whatever a route set (S-14)."""

DEFAULT_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"object-src 'none'",
    ),
)
"""On every answer of a route that did not set its own."""

CLOSE: Final[Header] = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in place of a route's. An ASGI application, so a route can return it.

    `reason` is a stable word for programs, `message` a sentence for people.
    """

    status: int
    reason: str
    message: str
    headers: tuple[Header, ...] = ()

    def closing(self) -> Refusal:
        """The same refusal as the last answer of its connection."""
        return replace(self, headers=(*self.headers, CLOSE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request, or a WebSocket handshake in place of accepting it."""
        body = strict_json.dumps(_render(scope)(self, request_id_of(scope))).encode()
        prefix = ""
        if scope["type"] == "websocket":
            await receive()
            if "websocket.http.response" not in scope.get("extensions", {}):
                await send({"type": "websocket.close", "code": 1008})
                return
            prefix = "websocket."
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *SECURITY_HEADERS,
            *DEFAULT_HEADERS,
            *self.headers,
        ]
        start = {"type": f"{prefix}http.response.start", "status": self.status, "headers": headers}
        await send(start)
        await send({"type": f"{prefix}http.response.body", "body": body})


if TYPE_CHECKING:
    RenderRefusal = Callable[[Refusal, str], dict[str, Any]]


def render_refusal(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """The body of a refusal on paths whose wire has no shape of its own."""
    return {
        "error": {
            "status": refusal.status,
            "reason": refusal.reason,
            "message": refusal.message,
            "request_id": request_id,
        }
    }


def request_id_of(scope: Scope) -> str:
    """The id of a request in logs and answers; empty for one that the guards have not seen."""
    return str(scope.get("state", {}).get("request_id", ""))


def _render(scope: Scope) -> RenderRefusal:
    render: RenderRefusal = scope.get("state", {}).get("render_refusal", render_refusal)
    return render


NOT_FOUND: Final = Refusal(404, "not_found", "there is nothing at this path")
METHOD_NOT_ALLOWED: Final = Refusal(
    405, "method_not_allowed", "this path does not take this method"
)
NOT_ACCEPTABLE: Final = Refusal(
    406, "not_acceptable", "no media type in Accept can be answered here"
)
UNSUPPORTED_MEDIA_TYPE: Final = Refusal(
    415, "unsupported_media_type", "a body is application/json in UTF-8, without content encoding"
)
UNAUTHENTICATED: Final = Refusal(
    401,
    "unauthenticated",
    "a valid bearer token is required in the Authorization header",
    ((b"www-authenticate", b'Bearer realm="aios"'),),
)
INTERNAL: Final = Refusal(500, "internal", "the request failed; the log has it under request_id")
OVERLOADED: Final = Refusal(
    503, "overloaded", "too many connections", ((b"retry-after", b"1"), CLOSE)
)

RENDERED_STATUSES: Final = {
    refusal.status: refusal
    for refusal in (
        NOT_FOUND,
        METHOD_NOT_ALLOWED,
        NOT_ACCEPTABLE,
        UNSUPPORTED_MEDIA_TYPE,
        INTERNAL,
    )
}
"""Statuses whose plain-text answers, as frameworks write them, are replaced by small JSON."""


def too_many_failures(retry_after_seconds: int) -> Refusal:
    """The answer to a failed authentication once a peer has failed too often."""
    return Refusal(
        429,
        "too_many_failures",
        "too many failed authentications; wait before the next",
        ((b"retry-after", str(retry_after_seconds).encode()),),
    )
