"""A receiver of push notifications that keeps what it gets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: Any


class Receiver:
    """Listens on a loopback port. `failures` is how many requests it refuses first, with 503."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.refused = 0
        self.received: list[Received] = []
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/push"

    async def until(self, count: int, within_s: float = 20) -> list[Any]:
        """The bodies, once there are so many."""
        return await self._until(lambda: len(self.received) >= count, within_s)

    async def until_state(self, state: str, within_s: float = 20) -> list[Any]:
        """The bodies, once one of them tells a state."""

        def is_told() -> bool:
            updates = [one.body.get("statusUpdate", {}) for one in self.received]
            return any(one.get("status", {}).get("state") == state for one in updates)

        return await self._until(is_told, within_s)

    async def _until(self, is_there: Callable[[], bool], within_s: float) -> list[Any]:
        async with asyncio.timeout(within_s):
            while not is_there():
                self._arrived.clear()
                await self._arrived.wait()
        return [one.body for one in self.received]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for header in filter(None, lines):
            name, _, value = header.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if self.refused < self.failures:
            self.refused += 1
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            self.received.append(Received(line.split(" ")[1], headers, json.loads(body)))
            self._arrived.set()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
