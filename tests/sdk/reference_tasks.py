"""The client's side of a daemon, by the letter of the contract, with scripted breaks."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from aiosd.api.v1 import (
    artifact_pb2,
    artifact_service_pb2,
    artifact_service_pb2_grpc,
    content_pb2,
    event_pb2,
    system_service_pb2,
    system_service_pb2_grpc,
    task_pb2,
    task_service_pb2,
    task_service_pb2_grpc,
)
from tests.sdk.reference_daemon import PATIENCE_S, rich_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

BATCH = 7


class ReferenceTasks(task_service_pb2_grpc.TaskServiceServicer):
    """One task `t` with a log that grows, and calls that fail when told to."""

    def __init__(self, socket: Path) -> None:
        self.address = f"unix:{socket}"
        self.events: list[event_pb2.Event] = []
        self.floor = 1
        self.terminal = False
        self.breaks: deque[tuple[int, grpc.StatusCode, str]] = deque()
        """After so many events of one stream, end it with this."""
        self.failures: deque[Any] = deque()
        """Statuses for the next unary calls."""
        self.asked_after: list[int | None] = []
        self.open_streams = 0
        self.tokens: list[str] = []
        self.created: dict[str, task_pb2.Task] = {}
        self.creates = 0
        self._grown = asyncio.Condition()
        self._server: aio.Server | None = None

    async def start(self) -> None:
        self._server = aio.server()
        task_service_pb2_grpc.add_TaskServiceServicer_to_server(self, self._server)
        artifact_service_pb2_grpc.add_ArtifactServiceServicer_to_server(
            ReferenceArtifacts(), self._server
        )
        system_service_pb2_grpc.add_SystemServiceServicer_to_server(
            ReferenceSystem(self), self._server
        )
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def grow(self, count: int, *, terminal: bool = False) -> None:
        """Append events."""
        async with self._grown:
            for _ in range(count):
                family = "progressed" if len(self.events) % 2 else "logged"
                self.events.append(
                    event_pb2.Event(task_id="t", sequence=len(self.events) + 1, **{family: {}})
                )
            self.terminal = terminal
            self._grown.notify_all()

    async def SubscribeToTask(
        self,
        request: task_service_pb2.SubscribeToTaskRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[task_service_pb2.SubscribeToTaskResponse]:
        if request.task_id != "t":
            await context.abort_with_status(
                rich_status(grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND", "no such task")
            )
        after = request.after_sequence if request.HasField("after_sequence") else None
        self.asked_after.append(after)
        cursor = len(self.events) if after is None else after
        await self._count_streams(1)
        try:
            yield self._first(request, cursor)
            sent = 0
            cursor = max(cursor, self.floor - 1)
            while True:
                async with self._grown:
                    await self._grown.wait_for(
                        lambda at=cursor: len(self.events) > at or self.terminal  # type: ignore[misc]
                    )
                for event in self.events[cursor : cursor + BATCH]:
                    if self.breaks and sent >= self.breaks[0][0]:
                        _, code, reason = self.breaks.popleft()
                        await context.abort_with_status(rich_status(code, reason))
                    response = task_service_pb2.SubscribeToTaskResponse(cursor=event.sequence)
                    if not request.families or event.HasField("progressed"):
                        response.events.append(event)
                    yield response
                    cursor = event.sequence
                    sent += 1
                if self.terminal and cursor >= len(self.events):
                    return
        finally:
            await asyncio.shield(self._count_streams(-1))

    async def until_streams(self, count: int) -> None:
        """Return when so many streams are open."""
        async with asyncio.timeout(PATIENCE_S), self._grown:
            await self._grown.wait_for(lambda: self.open_streams == count)

    async def _count_streams(self, change: int) -> None:
        async with self._grown:
            self.open_streams += change
            self._grown.notify_all()

    def _first(
        self, request: task_service_pb2.SubscribeToTaskRequest, cursor: int
    ) -> task_service_pb2.SubscribeToTaskResponse:
        first = task_service_pb2.SubscribeToTaskResponse(cursor=cursor)
        if cursor + 1 < self.floor:
            first.truncated, first.oldest_sequence = True, self.floor
        if request.include_task:
            first.task.task_id = "t"
        return first

    async def CreateTask(
        self, request: task_service_pb2.CreateTaskRequest, context: aio.ServicerContext[Any, Any]
    ) -> task_service_pb2.CreateTaskResponse:
        self.creates += 1
        known = self.created.get(request.request_id)
        task = known or task_pb2.Task(
            task_id=f"task-{len(self.created) + 1}",
            capability_id=request.capability_id,
            arguments=request.arguments,
            options=request.options,
        )
        self.created[request.request_id] = task
        await self._maybe_fail(context)
        return task_service_pb2.CreateTaskResponse(task=task, created=known is None)

    async def GetTask(
        self, request: task_service_pb2.GetTaskRequest, context: aio.ServicerContext[Any, Any]
    ) -> task_service_pb2.GetTaskResponse:
        await self._maybe_fail(context)
        return task_service_pb2.GetTaskResponse(
            task=task_pb2.Task(task_id=request.task_id, state=task_pb2.TASK_STATE_WORKING)
        )

    async def CancelTask(
        self, request: task_service_pb2.CancelTaskRequest, context: aio.ServicerContext[Any, Any]
    ) -> task_service_pb2.CancelTaskResponse:
        await self._maybe_fail(context)
        return task_service_pb2.CancelTaskResponse(task=task_pb2.Task(task_id=request.task_id))

    async def _maybe_fail(self, context: aio.ServicerContext[Any, Any]) -> None:
        if self.failures:
            await context.abort_with_status(self.failures.popleft())


class ReferenceArtifacts(artifact_service_pb2_grpc.ArtifactServiceServicer):
    """One artifact of three chunks."""

    async def ReadArtifact(
        self,
        request: artifact_service_pb2.ReadArtifactRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[artifact_service_pb2.ReadArtifactResponse]:
        for position in range(request.from_position, 3):
            response = artifact_service_pb2.ReadArtifactResponse(
                position=position, parts=[content_pb2.Part(text=str(position))]
            )
            if position == request.from_position:
                response.artifact.CopyFrom(
                    artifact_pb2.Artifact(artifact_id=request.artifact_id, name="n")
                )
            yield response


class ReferenceSystem(system_service_pb2_grpc.SystemServiceServicer):
    """Says who called."""

    def __init__(self, tasks: ReferenceTasks) -> None:
        self._tasks = tasks

    async def GetSystemInfo(
        self,
        request: system_service_pb2.GetSystemInfoRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> system_service_pb2.GetSystemInfoResponse:
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                self._tasks.tokens.append(str(value))
        return system_service_pb2.GetSystemInfoResponse(version="reference")
