"""The gateway's HTTP server on a free loopback port, and raw sockets to speak to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from gateway.http_server import server_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from gateway.limits import HttpLimits

DEADLINE_S = 10.0


@asynccontextmanager
async def serving(app: ASGIApp, limits: HttpLimits) -> AsyncIterator[int]:
    """Serve for as long as the context is open; yields the port."""
    config = server_config(app, port=0, limits=limits, graceful_shutdown_seconds=1)
    server = uvicorn.Server(config)
    # `serve` would take over the signals of the test run.
    running = asyncio.create_task(server._serve())
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
                await asyncio.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await running


@dataclass(slots=True)
class RawAnswer:
    """One HTTP answer as it came over the socket."""

    status: int
    headers: dict[str, str]
    body: bytes


class RawClient:
    """Writes bytes as they are and reads answers back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """Send bytes; a server that has hung up already is not an error here."""
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def answer(self) -> RawAnswer:
        """Read one answer with a Content-Length."""
        async with asyncio.timeout(DEADLINE_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, *lines = head.strip().split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
            }
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return RawAnswer(int(status.split(" ")[1]), headers, body)

    async def hung_up(self) -> bool:
        """Wait for the server to close; True if nothing came before."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawClient]:
    """One raw connection."""
    client = RawClient(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield client
    finally:
        await client.close()
