"""TaskService: decode, one use case, encode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.adapters.rpc.calls import caller, trace_parent
from aiosd.adapters.rpc.codec import tasks as codec
from aiosd.adapters.rpc.codec.content import from_message, to_message
from aiosd.adapters.rpc.codec.events import from_families, to_event
from aiosd.adapters.rpc.codec.interruptions import from_auth_response
from aiosd.adapters.rpc.codec.scalars import span
from aiosd.adapters.rpc.errors import status_of
from aiosd.adapters.rpc.sizes import first_group, groups
from aiosd.api.v1 import task_service_pb2 as wire
from aiosd.api.v1.task_service_pb2_grpc import TaskServiceServicer
from aiosd.domain.content import Role
from aiosd.domain.errors import ArgumentInvalid, Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import grpc

    from aiosd.api.v1 import task_pb2
    from aiosd.application.core import Core
    from aiosd.application.watch import Batch
    from aiosd.domain.task import Task

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
LARGEST_BATCH = 200
LONGEST_REASON = 1024


class TaskService(TaskServiceServicer):
    """What clients do with tasks."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def CreateTask(
        self, request: wire.CreateTaskRequest, context: Context
    ) -> wire.CreateTaskResponse:
        return await self._create(request)

    async def BatchCreateTasks(
        self, request: wire.BatchCreateTasksRequest, context: Context
    ) -> wire.BatchCreateTasksResponse:
        if not 1 <= len(request.requests) <= LARGEST_BATCH:
            raise ArgumentInvalid("requests", f"must be 1..{LARGEST_BATCH}")
        results = await asyncio.gather(*(self._one_of_batch(one) for one in request.requests))
        return wire.BatchCreateTasksResponse(results=results)

    async def GetTask(self, request: wire.GetTaskRequest, context: Context) -> wire.GetTaskResponse:
        task = await self._core.control.wait(
            caller.get(),
            request.task_id,
            span(request.wait, "wait"),
            request.above_revision,
        )
        return wire.GetTaskResponse(task=await self._whole(task, request.include_history))

    async def ListTasks(
        self, request: wire.ListTasksRequest, context: Context
    ) -> wire.ListTasksResponse:
        query = codec.from_list(request)
        reading = self._core.reading
        list_tasks = reading.waiting if request.waiting_for_me else reading.tasks
        page = await list_tasks(caller.get(), query)
        now = self._core.clock.now()
        encoded = []
        for task in page.tasks:
            wanted = request.include_artifacts
            artifacts = await self._core.reading.artifacts_of(task) if wanted else ()
            encoded.append(codec.to_task(task, now, artifacts))
        tasks = first_group(encoded)
        more = page.more or len(tasks) < len(encoded)
        return wire.ListTasksResponse(
            tasks=tasks,
            next_page_token=codec.to_page_token(query, page.tasks[len(tasks) - 1]) if more else "",
            total_size=page.total,
        )

    async def CancelTask(
        self, request: wire.CancelTaskRequest, context: Context
    ) -> wire.CancelTaskResponse:
        reason = _reason(request.reason)
        task = await self._core.control.cancel(caller.get(), request.task_id, reason)
        return wire.CancelTaskResponse(task=await self._whole(task))

    async def PauseTask(
        self, request: wire.PauseTaskRequest, context: Context
    ) -> wire.PauseTaskResponse:
        reason = _reason(request.reason)
        task = await self._core.control.pause(caller.get(), request.task_id, reason)
        return wire.PauseTaskResponse(task=await self._whole(task))

    async def ResumeTask(
        self, request: wire.ResumeTaskRequest, context: Context
    ) -> wire.ResumeTaskResponse:
        reason = _reason(request.reason)
        task = await self._core.control.resume(caller.get(), request.task_id, reason)
        return wire.ResumeTaskResponse(task=await self._whole(task))

    async def SubmitInput(
        self, request: wire.SubmitInputRequest, context: Context
    ) -> wire.SubmitInputResponse:
        message = None
        if request.HasField("message"):
            message = from_message(request.message, "message", self._core.clock.now(), Role.USER)
        task = await self._core.control.submit_input(
            caller.get(), request.task_id, request.input, request.interruption_id, message
        )
        return wire.SubmitInputResponse(task=await self._whole(task))

    async def AuthenticateTask(
        self, request: wire.AuthenticateTaskRequest, context: Context
    ) -> wire.AuthenticateTaskResponse:
        response = from_auth_response(request.auth_response, "auth_response")
        answered = await self._core.control.authenticate(
            caller.get(), request.task_id, response, request.interruption_id
        )
        return wire.AuthenticateTaskResponse(
            task=await self._whole(answered.task),
            confirmations=answered.confirmations,
            confirmation_id=answered.confirmation_id,
        )

    async def SubscribeToTask(
        self, request: wire.SubscribeToTaskRequest, context: Context
    ) -> AsyncIterator[wire.SubscribeToTaskResponse]:
        with self._core.quotas.subscription(caller.get().principal):
            async for response in self._follow(request):
                yield response

    async def _follow(
        self, request: wire.SubscribeToTaskRequest
    ) -> AsyncIterator[wire.SubscribeToTaskResponse]:
        who = caller.get()
        after = request.after_sequence if request.HasField("after_sequence") else None
        families = from_families(request.families)
        if request.WhichOneof("target") == "subscription_id":
            followed = await self._core.subscriptions.follow(
                who, request.subscription_id, after, parts=request.include_parts
            )
        else:
            followed = await self._core.subscriptions.follow_task(
                who, request.task_id, after, families, parts=request.include_parts
            )
        # Sent at once, so that a reader knows that it is subscribed and from where.
        first = wire.SubscribeToTaskResponse(cursor=followed.after)
        if request.include_task:
            first.task.CopyFrom(await self._whole(followed.task))
        yield first
        async for batch in followed.batches:
            for response in _to_responses(batch):
                yield response

    async def ListMessages(
        self, request: wire.ListMessagesRequest, context: Context
    ) -> wire.ListMessagesResponse:
        size, skip = codec.page_size(request.page_size), codec.from_offset_token(request.page_token)
        found = await self._core.reading.messages(caller.get(), request.task_id, skip, size + 1)
        messages = first_group(to_message(one) for one in found[:size])
        return wire.ListMessagesResponse(
            messages=messages,
            next_page_token=str(skip + len(messages)) if len(found) > len(messages) else "",
        )

    async def ResolveTask(
        self, request: wire.ResolveTaskRequest, context: Context
    ) -> wire.ResolveTaskResponse:
        task, retried_as = await self._core.resolution.resolve(
            caller.get(), request.task_id, request.outcome, request.evidence, trace_parent.get()
        )
        return wire.ResolveTaskResponse(
            task=await self._whole(task),
            retried_as=None if retried_as is None else await self._whole(retried_as),
        )

    async def AcceptTask(
        self, request: wire.AcceptTaskRequest, context: Context
    ) -> wire.AcceptTaskResponse:
        task = await self._core.resolution.accept(
            caller.get(), request.task_id, request.accepted, request.reason
        )
        return wire.AcceptTaskResponse(task=await self._whole(task))

    # --- inside -----------------------------------------------------------------------------------

    async def _create(self, request: wire.CreateTaskRequest) -> wire.CreateTaskResponse:
        wait = span(request.wait, "wait")
        new = codec.from_create(request, self._core.clock.now(), trace_parent.get())
        task, created = await self._core.creation.create(caller.get(), new)
        if wait:
            task = await self._core.control.wait(caller.get(), task.id, wait)
        return wire.CreateTaskResponse(task=await self._whole(task), created=created)

    async def _one_of_batch(self, request: wire.CreateTaskRequest) -> wire.BatchCreateTasksResult:
        try:
            return wire.BatchCreateTasksResult(created=await self._create(request))
        except Refusal as refusal:
            await self._core.audit.refused(refusal, capability_id=request.capability_id)
            status = status_of(refusal)
            error = wire.BatchCreateTasksError(
                code=status.code.value[0],
                reason=status.reason,
                message=status.message,
            )
            return wire.BatchCreateTasksResult(error=error)

    async def _whole(self, task: Task, history: bool = False) -> task_pb2.Task:
        reading = self._core.reading
        artifacts = await reading.artifacts_of(task)
        changes = await reading.history(task) if history else ()
        return codec.to_task(task, self._core.clock.now(), artifacts, changes)


def _to_responses(batch: Batch) -> Iterator[wire.SubscribeToTaskResponse]:
    """One response, or several when the events are large; the last one moves the cursor fully."""
    encoded = list(groups(to_event(one) for one in batch.events)) or [[]]
    for position, events in enumerate(encoded):
        last = position == len(encoded) - 1
        yield wire.SubscribeToTaskResponse(
            events=events,
            cursor=batch.cursor if last else events[-1].sequence,
            truncated=batch.truncated and position == 0,
            oldest_sequence=batch.oldest if position == 0 else 0,
        )


def _reason(text: str) -> str:
    if len(text) > LONGEST_REASON:
        raise ArgumentInvalid("reason", f"must not exceed {LONGEST_REASON} characters")
    return text
