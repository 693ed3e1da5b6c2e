"""The answer that is a stream of server-sent events, whatever wire it belongs to.

Chunks are written as they come, with a comment when nothing came for a while. The connection is
the only buffer: a reader who is slow stops the iterator, and that stops the daemon's stream.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from gateway import sse
from gateway.measures import STREAMS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send

STOPPING: Final = b": the server is stopping, connect again\n\n"
STALLED_SECONDS: Final = 60.0
"""A reader who takes nothing for so long is cut off."""

_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class EventStream:
    """An ASGI application that writes the chunks of an iterator until it ends.

    It also ends, with `stopping_words`, when `stopping` is set, and silently when the client has
    gone. The iterator is closed in every case.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        stopping: asyncio.Event,
        *,
        keep_alive_seconds: float = sse.KEEP_ALIVE_SECONDS,
        stopping_words: bytes = STOPPING,
    ) -> None:
        self._chunks = chunks
        self._stopping = stopping
        self._keep_alive_seconds = keep_alive_seconds
        self._writing = asyncio.Lock()
        self._stopping_words = stopping_words
        self._last_words = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with STREAMS.track_inprogress():
            await self._answer(receive, send)

    async def _answer(self, receive: Receive, send: Send) -> None:
        async with aclosing(self._chunks):
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
            is_connected = await self._run(receive, send)
        if is_connected:
            last = {"type": "http.response.body", "body": self._last_words, "more_body": False}
            await send(last)

    async def _run(self, receive: Receive, send: Send) -> bool:
        """Write until one of the three ends; whether anybody is still there to hear it."""
        writing = asyncio.create_task(self._write(send))
        leaving = asyncio.create_task(_disconnected(receive))
        stopping = asyncio.create_task(self._stopping.wait())
        beating = asyncio.create_task(self._beat(send))
        tasks = (writing, leaving, stopping, beating)
        try:
            await asyncio.wait((writing, leaving, stopping), return_when="FIRST_COMPLETED")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if leaving.done() and not leaving.cancelled():
            return False
        if writing.cancelled():
            self._last_words = self._stopping_words
            return True
        failure = writing.exception()
        if isinstance(failure, TimeoutError | OSError):
            return False
        if failure is not None:
            raise failure
        return True

    async def _write(self, send: Send) -> None:
        async for chunk in self._chunks:
            await self._send(send, chunk)

    async def _beat(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._keep_alive_seconds)
            await self._send(send, sse.KEEP_ALIVE)

    async def _send(self, send: Send, chunk: bytes) -> None:
        async with self._writing, asyncio.timeout(STALLED_SECONDS):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
