"""Following a task: every event exactly once and in order, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, TypeAlias

import grpc
from grpc import aio

from aiosd.api.v1 import event_pb2, task_pb2, task_service_pb2
from aiosd.sdk import rpc_status
from aiosd.sdk.connection import jittered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from aiosd.sdk.calls import Calls
    from aiosd.sdk.errors import AiosdError

log = logging.getLogger("aiosd.sdk")

FamilyLike: TypeAlias = str | event_pb2.EventFamily.ValueType
"""An event family: "status", "progress", "artifact", "log", "message", or the enum's value."""

# A stream that ends like this says nothing about the task: look again from the cursor.
_COME_BACK = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
# Those of them that are a fault of somebody rather than the weather.
_FAULTS = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
_MOST_FAULTS = 8


class Subscription:
    """An asynchronous iterator over the events of one task.

    It replays from `after` and goes on live. A stream that breaks is opened again from the
    cursor, after a short random pause, for as long as it takes; the iteration ends after the last
    event of a terminal task, or when the remembered subscription was deleted. `aclose`, or
    leaving `async with`, ends the call at the daemon at once.

    Raises AiosdError when the daemon refuses (NotFound, InvalidArgument with CURSOR_INVALID, ...),
    and Unavailable only if no daemon ever answered, within the patience where its socket is.
    """

    def __init__(
        self,
        calls: Calls,
        request: task_service_pb2.SubscribeToTaskRequest,
    ) -> None:
        self._calls = calls
        self._request = request
        self._cursor = request.after_sequence if request.HasField("after_sequence") else None
        self._events = self._follow()
        self._began = time.monotonic()
        self.truncated = False
        """Retention cut events after the wanted one: the replay began with `oldest_sequence`."""
        self.oldest_sequence = 0
        self.task: task_pb2.Task | None = None
        """As it was at the start of the first stream, if it was asked for."""

    @property
    def cursor(self) -> int | None:
        """Newest event number that was passed, filtered ones included; None: not known yet."""
        return self._cursor

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> event_pb2.Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the subscription; the task goes on."""
        await self._events.aclose()

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _follow(self) -> AsyncGenerator[event_pb2.Event, None]:
        failures = faults = 0
        while True:
            before = self._cursor
            call = self._calls.tasks.SubscribeToTask(
                self._next_request(), metadata=self._calls.metadata
            )
            try:
                async for response in call:
                    failures = 0
                    for event in self._passed(response):
                        yield event
                return
            except aio.AioRpcError as error:
                problem = rpc_status.from_rpc(error)
                faults = faults + 1 if error.code() in _FAULTS and before == self._cursor else 0
                if not self._comes_back(problem) or faults > _MOST_FAULTS:
                    raise problem from None
                log.info(
                    "subscription.resumes task_id=%s after=%s code=%s reason=%s",
                    self._request.task_id or self._request.subscription_id,
                    self._cursor,
                    problem.code.name,
                    problem.reason,
                )
                await asyncio.sleep(max(jittered(failures), (problem.retry_after_ms or 0) / 1000))
                failures += 1
            finally:
                # An abandoned call lives until its channel closes (E12).
                call.cancel()

    def _next_request(self) -> task_service_pb2.SubscribeToTaskRequest:
        request = task_service_pb2.SubscribeToTaskRequest()
        request.CopyFrom(self._request)
        if self._cursor is not None:
            request.after_sequence = self._cursor
        request.include_task = self._request.include_task and self.task is None
        return request

    def _passed(
        self, response: task_service_pb2.SubscribeToTaskResponse
    ) -> Iterable[event_pb2.Event]:
        """The new events of a response, the cursor moved with each of them."""
        self._calls.reached = True
        if response.HasField("task"):
            self.task = response.task
        if response.truncated:
            self.truncated = True
            self.oldest_sequence = response.oldest_sequence
            log.warning(
                "subscription.truncated task_id=%s after=%s oldest=%s",
                self._request.task_id,
                self._cursor,
                response.oldest_sequence,
            )
        for event in response.events:
            if self._cursor is None or event.sequence > self._cursor:
                self._cursor = event.sequence
                yield event
        # A first response that names no cursor must not turn "from the head" into "from 0".
        if response.cursor > (self._cursor or 0):
            self._cursor = response.cursor

    def _comes_back(self, problem: AiosdError) -> bool:
        if problem.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            # The daemon's own limit passes; a message over the size limit comes back the same.
            return bool(problem.reason)
        if problem.code not in _COME_BACK:
            return False
        return self._calls.may_come(self._began) or problem.reason != ""


def family(value: FamilyLike) -> event_pb2.EventFamily.ValueType:
    """The enum's value. Raises ValueError for an unknown word."""
    if isinstance(value, str):
        try:
            return event_pb2.EventFamily.Value(f"EVENT_FAMILY_{value.upper()}")
        except ValueError:
            raise ValueError(f"families: {value!r} is no event family") from None
    return value
