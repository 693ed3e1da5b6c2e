"""The events of one subscription as chunks of an event stream, without a gap over restarts.

When the daemon goes away the reader stays connected: the feed subscribes again after the last
event that it wrote, for as long as a restart may reasonably take. It ends in silence only after
the last event of a task, or when the subscription was ended; any other end is told in a comment.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from aiosd.aios_wire.errors import timestamp
from aiosd.api.v1 import task_service_pb2
from gateway import sse, strict_json
from gateway.aios import events
from gateway.aios.method import now_ms
from gateway.daemon_channel import DaemonError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.daemon_channel import Caller, DaemonChannel

RECONNECT_SECONDS: Final = 60.0
"""How long a reader is kept while the daemon does not answer."""
_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 2.0
INTERRUPTED: Final = b": the stream was interrupted, connect again\n\n"


class Feed:
    """One reader of one subscription. Open it, then write its chunks."""

    def __init__(
        self,
        daemon: DaemonChannel,
        caller: Caller,
        subscription_id: str,
        *,
        after_sequence: int | None = None,
    ) -> None:
        """Begin after an event, or, without one, where the subscription begins."""
        self._daemon = daemon
        self._caller = caller
        self._subscription_id = subscription_id
        self._cursor = after_sequence
        self._trace_parent = ""
        self._responses: AsyncGenerator[task_service_pb2.SubscribeToTaskResponse, None] | None
        self._responses = None
        self._first: task_service_pb2.SubscribeToTaskResponse | None = None

    async def open(self) -> None:
        """Wait for the daemon's first response. Raises DaemonError if it refuses the stream."""
        responses = self._subscribe()
        try:
            self._first = await anext(responses, None)
        except BaseException:
            await responses.aclose()
            raise
        self._responses = responses

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Write what happens, as many events at once as were waiting."""
        lost_at: float | None = None
        delay = _FIRST_DELAY_S
        while True:
            try:
                if self._responses is None:
                    await self.open()
                async with aclosing(self._read()) as chunks:
                    async for chunk in chunks:
                        lost_at, delay = None, _FIRST_DELAY_S
                        if chunk:
                            yield chunk
                return
            except DaemonError as error:
                self._responses = None
                now = time.monotonic()
                lost_at = now if lost_at is None else lost_at
                if not error.is_unavailable or now - lost_at > RECONNECT_SECONDS:
                    yield INTERRUPTED
                    return
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY_S)

    async def close(self) -> None:
        """End the daemon's stream if `chunks` was never read."""
        if self._responses is not None:
            await self._responses.aclose()

    def _subscribe(self) -> AsyncGenerator[task_service_pb2.SubscribeToTaskResponse, None]:
        # The task in the first response is what tells at once that the stream stands.
        request = task_service_pb2.SubscribeToTaskRequest(
            subscription_id=self._subscription_id,
            after_sequence=self._cursor,
            include_task=True,
        )
        return self._daemon.stream(self._daemon.tasks.SubscribeToTask, request, self._caller)

    async def _read(self) -> AsyncGenerator[bytes, None]:
        if self._responses is None:
            return
        async with aclosing(self._responses) as responses:
            if self._first is not None:
                first, self._first = self._first, None
                yield self._chunk(first)
            async for response in responses:
                yield self._chunk(response)

    def _chunk(self, response: task_service_pb2.SubscribeToTaskResponse) -> bytes:
        if response.HasField("task"):
            self._trace_parent = response.task.trace_parent
        frames = events.frames(response.events, self._trace_parent)
        if response.truncated:
            frames.insert(0, _truncated(response.oldest_sequence))
        newest = response.events[-1].sequence if response.events else 0
        newest = max(newest, response.cursor)
        if newest:
            self._cursor = max(newest, self._cursor or 0)
        return sse.encode(frames)


def _truncated(oldest: int) -> sse.Frame:
    """What a reader is told whose next events were cut by retention; it has no id of its own."""
    data = {
        "level": "WARN",
        "message": "older events are no longer kept",
        "timestamp": timestamp(now_ms()),
        "truncated": True,
        "oldest_event_id": sse.format_event_id(max(oldest, 1)),
    }
    return sse.Frame(strict_json.dumps(data), event="task.log")
