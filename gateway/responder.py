"""The way back through the guards: every answer leaves with the same headers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.refusals import (
    DEFAULT_HEADERS,
    RENDERED_STATUSES,
    SECURITY_HEADERS,
    Header,
    request_id_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Message, Receive, Scope, Send

_JSON_SUFFIX: Final = b"json"
_REPLACED: Final = frozenset(name for name, _ in SECURITY_HEADERS) | {b"x-request-id", b"server"}
_BODY_HEADERS: Final = frozenset({b"content-type", b"content-length", b"content-encoding"})


class Responder:
    """Sends the answer of one request.

    Adds the security headers, takes away whatever would open the answer to other origins, and
    writes small JSON where a framework answered in plain text, that there is no such path say.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._replaced = False
        self.started = False
        self.complete = False

    async def send(self, message: Message) -> None:
        """ASGI's send."""
        self.started = True
        if message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
        if self._replaced:
            return
        if message["type"] == "http.response.start":
            headers: Sequence[Header] = message.get("headers", ())
            refusal = RENDERED_STATUSES.get(message["status"])
            if refusal is not None and not _is_json(headers):
                self._replaced = True
                kept = (header for header in headers if header[0].lower() not in _BODY_HEADERS)
                answer = replace(refusal, headers=tuple(kept))
                await answer(self._scope, self._receive, self._send_with_headers)
                return
        await self._send_with_headers(message)

    async def _send_with_headers(self, message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            message = {**message, "headers": self._headers(message.get("headers", ()))}
        await self._send(message)

    def _headers(self, headers: Sequence[Header]) -> list[Header]:
        kept = [
            header
            for header in headers
            if (name := header[0].lower()) not in _REPLACED
            and not name.startswith(b"access-control-")
        ]
        present = {name.lower() for name, _ in kept}
        return [
            *kept,
            *SECURITY_HEADERS,
            *(header for header in DEFAULT_HEADERS if header[0] not in present),
            (b"x-request-id", request_id_of(self._scope).encode()),
        ]


def _is_json(headers: Sequence[Header]) -> bool:
    return any(
        name.lower() == b"content-type" and value.partition(b";")[0].strip().endswith(_JSON_SUFFIX)
        for name, value in headers
    )
