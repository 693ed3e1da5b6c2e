"""Call an ASGI application without a server, with exactly the scope and body that a test wants."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.types import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.types import ASGIApp

TOKEN = "aios_test"


@dataclass(slots=True)
class Answer:
    """What an application sent; header names are lower case, the last of a name wins."""

    status: int
    headers: dict[str, str]
    body: bytes
    received: list[Message] = field(default_factory=list)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """The stable word of a refusal."""
        reason = self.json()["error"]["reason"]
        assert isinstance(reason, str)
        return reason


def headers_of(
    *extra: tuple[str, str], host: str | None = "127.0.0.1:9527", token: str | None = TOKEN
) -> list[tuple[bytes, bytes]]:
    """Headers of a well-behaved client, and more."""
    headers = [] if host is None else [("host", host)]
    if token is not None:
        headers.append(("authorization", f"Bearer {token}"))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in [*headers, *extra]]


def scope_of(
    path: str = "/aios/rpc",
    *,
    method: str = "POST",
    headers: Sequence[tuple[bytes, bytes]] | None = None,
    query: bytes = b"",
    client: tuple[str, int] | None = ("127.0.0.1", 50000),
    server: tuple[str, int | None] = ("127.0.0.1", 9527),
    kind: str = "http",
    scheme: str = "http",
) -> dict[str, Any]:
    """The scope that uvicorn makes of such a request."""
    scope: dict[str, Any] = {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": list(headers_of() if headers is None else headers),
        "client": client,
        "server": server,
        "state": {},
    }
    if kind == "http":
        scope["method"] = method
    else:
        scope["extensions"] = {"websocket.http.response": {}}
    return scope


async def call(app: ASGIApp, scope: dict[str, Any], body: Iterable[bytes] | None = None) -> Answer:
    """Run one request to its end. `body` are the chunks in which the body arrives."""
    chunks = list(body or [])
    incoming: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": n < len(chunks)}
        for n, chunk in enumerate(chunks, start=1)
    ] or [{"type": "http.request", "body": b"", "more_body": False}]
    if scope["type"] == "websocket":
        incoming = [{"type": "websocket.connect"}]
    sent: list[Message] = []
    received: list[Message] = []

    async def receive() -> Message:
        if not incoming:
            await asyncio.Event().wait()
        received.append(incoming.pop(0))
        return received[-1]

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(message for message in sent if message["type"].endswith("http.response.start"))
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent),
        received,
    )
