"""ListTasks (a2a.md 5.7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from a2a.types import a2a_pb2

from aiosd.api.v1 import task_pb2, task_service_pb2
from gateway.a2a import snapshot, words
from gateway.a2a.errors import invalid
from gateway.a2a.requests import check_history_length

if TYPE_CHECKING:
    from gateway.a2a.call import Call

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 100
_NANOS_PER_MS: Final = 1_000_000
# States whose status carries a message.
_SPEAKING: Final = words.INTERRUPTED | words.TERMINAL - {task_pb2.TASK_STATE_COMPLETED}


async def list_tasks(call: Call, params: a2a_pb2.ListTasksRequest) -> a2a_pb2.ListTasksResponse:
    """A page of the caller's tasks, the newest status first.

    Without historyLength a list carries no history, which is the default amount of this server.
    """
    size = params.page_size if params.HasField("page_size") else DEFAULT_PAGE_SIZE
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise invalid("pageSize", f"must be between 1 and {MAX_PAGE_SIZE}")
    if params.HasField("history_length"):
        check_history_length(params.history_length)
    request = task_service_pb2.ListTasksRequest(
        states=words.states(params.status) if params.status else (),
        capability_id=call.tenant,
        context_id=params.context_id,
        order=task_service_pb2.TASK_ORDER_STATE_TIME,
        page_size=size,
        page_token=params.page_token,
        include_total=True,
        include_artifacts=params.include_artifacts,
    )
    if params.HasField("status_timestamp_after"):
        since = params.status_timestamp_after
        # The daemon counts milliseconds: one that has begun lies before the bound.
        request.state_since.CopyFrom(since)
        request.state_since.nanos = -(-since.nanos // _NANOS_PER_MS) * _NANOS_PER_MS
        if request.state_since.nanos >= 1000 * _NANOS_PER_MS:
            request.state_since.FromMilliseconds((since.seconds + 1) * 1000)
    answer = await call.read(call.context.daemon.tasks.ListTasks, request)
    tasks = await asyncio.gather(*(_shown(call, params, one) for one in answer.tasks))
    return a2a_pb2.ListTasksResponse(
        tasks=tasks,
        next_page_token=answer.next_page_token,
        page_size=size,
        total_size=answer.total_size,
    )


async def _shown(
    call: Call, params: a2a_pb2.ListTasksRequest, native: task_pb2.Task
) -> a2a_pb2.Task:
    length = params.history_length
    if length or native.state in _SPEAKING:
        # What was asked and when is in the state history, which lists do not carry.
        changes = (await snapshot.fetch(call, native.task_id)).state_history
        native.state_history.extend(one for one in changes if one.sequence <= native.event_head)
    shot = await snapshot.load(
        call, native, history_length=length, with_artifacts=params.include_artifacts
    )
    return shot.shown
