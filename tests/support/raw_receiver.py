"""A webhook receiver that can be as odd as the world: raw bytes over asyncio, no HTTP library."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    Behaviour = Callable[["Posted", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Posted:
    """One request as it came."""

    target: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)


def answering(status: int = 200, *, headers: str = "", body: bytes = b"") -> Behaviour:
    """Answer like this, always."""

    async def behave(posted: Posted, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return behave


async def hang(posted: Posted, writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def endless(posted: Posted, writer: asyncio.StreamWriter) -> None:
    """Fail with a body that has no end."""
    writer.write(b"HTTP/1.1 500 X\r\nContent-Type: text/plain\r\n\r\n")
    with suppress(ConnectionError):
        while True:
            writer.write(b"A" * 65536)
            await writer.drain()


async def dripping(posted: Posted, writer: asyncio.StreamWriter) -> None:
    """One byte now and then, never a whole head."""
    with suppress(ConnectionError):
        for byte in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)


class Receiver:
    """Listens on loopback; keeps what came; behaves as `behave` says at the moment."""

    def __init__(self, behave: Behaviour | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.behave = behave or answering(200)
        self.posted: list[Posted] = []
        self.connections = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}/hook"

    async def __aenter__(self) -> Receiver:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Begin to listen, on the port of before if one is given."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            posted = await _read(reader)
            self.posted.append(posted)
            await self.behave(posted, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Posted:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.strip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Posted(line.split(" ")[1], headers, body)
