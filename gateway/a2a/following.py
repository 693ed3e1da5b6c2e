"""Following a task: one stream of updates without a gap, over restarts of the daemon."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from aiosd.api.v1 import task_pb2, task_service_pb2
from gateway.a2a.call import patiently
from gateway.a2a.errors import UnavailableError, from_daemon
from gateway.a2a.translate import FAMILIES
from gateway.daemon_channel import DaemonError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.a2a.call import Call
    from gateway.a2a.translate import Translator, Update

RECONNECT_SECONDS: Final = 60.0
"""How long a reader is kept while the daemon does not answer."""
_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 2.0


class Following:
    """The daemon's stream of one task from an event on. Open it, then read its updates."""

    def __init__(self, call: Call, task_id: str, after: int | None) -> None:
        """Begin after an event; None begins after the newest one at the time of `open`."""
        self._call = call
        self._task_id = task_id
        self._cursor = after
        self._responses: AsyncGenerator[task_service_pb2.SubscribeToTaskResponse, None] | None
        self._responses = None
        self.truncated = False

    async def open(self) -> task_pb2.Task:
        """The task as it is where the stream begins. Raises A2AError if the daemon refuses."""
        try:
            first = await patiently(lambda: self._connect(include_task=True))
        except DaemonError as refused:
            raise self._call.refuse(refused) from None
        return first.task

    async def updates(self, translator: Translator) -> AsyncGenerator[Update, None]:
        """What happens, until the last event of a task that ends. Raises UnavailableError."""
        lost_at: float | None = None
        delay = _FIRST_DELAY_S
        try:
            while True:
                try:
                    if self._responses is None:
                        await self._connect()
                    async with aclosing(self._read(translator)) as updates:
                        async for update in updates:
                            lost_at, delay = None, _FIRST_DELAY_S
                            yield update
                    return
                except DaemonError as refused:
                    self._responses = None
                    error = from_daemon(refused)
                    if not isinstance(error, UnavailableError):
                        raise self._call.refuse(refused) from None
                    now = time.monotonic()
                    lost_at = now if lost_at is None else lost_at
                    if now - lost_at > RECONNECT_SECONDS:
                        raise error from None
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY_S)
        finally:
            await self.close()

    async def close(self) -> None:
        """End the daemon's stream."""
        responses, self._responses = self._responses, None
        if responses is not None:
            await responses.aclose()

    async def _connect(
        self, *, include_task: bool = False
    ) -> task_service_pb2.SubscribeToTaskResponse:
        daemon = self._call.context.daemon
        request = task_service_pb2.SubscribeToTaskRequest(
            task_id=self._task_id,
            after_sequence=self._cursor,
            families=FAMILIES,
            include_task=include_task,
            include_parts=True,
        )
        responses = daemon.stream(daemon.tasks.SubscribeToTask, request, self._call.request.caller)
        try:
            # The daemon answers at once, with the cursor that the stream begins at.
            first = await anext(responses)
        except BaseException:
            await responses.aclose()
            raise
        self._responses = responses
        self._cursor = first.cursor
        return first

    async def _read(self, translator: Translator) -> AsyncGenerator[Update, None]:
        responses = self._responses
        if responses is None:
            return
        async with aclosing(responses):
            async for response in responses:
                self.truncated = self.truncated or response.truncated
                for event in response.events:
                    for update in await translator.translate(event):
                        yield update
                    self._cursor = event.sequence
                self._cursor = max(self._cursor or 0, response.cursor)
