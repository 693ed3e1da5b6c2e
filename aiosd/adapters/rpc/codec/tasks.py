"""Tasks, their creation and their lists."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, cast

from aiosd.adapters.rpc.codec.content import (
    from_message,
    to_artifact,
    to_failure,
    to_message,
    to_progress,
)
from aiosd.adapters.rpc.codec.interruptions import to_interruption
from aiosd.adapters.rpc.codec.scalars import (
    DAY_MS,
    duration,
    member,
    milliseconds,
    span,
    timestamp,
)
from aiosd.adapters.rpc.codec.webhooks import from_webhook
from aiosd.api.v1 import task_pb2, task_service_pb2
from aiosd.application.creation import NewTask
from aiosd.application.ports import TaskOrder, TaskQuery
from aiosd.domain.content import Role
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.state import TaskState
from aiosd.domain.task import Options, Priority

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.domain.artifact import Artifact
    from aiosd.domain.event import Resolved
    from aiosd.domain.task import StateChange, Task

HUGE_SKIP = 1_000_000
_ORDERS = {
    task_service_pb2.TASK_ORDER_UNSPECIFIED: TaskOrder.CREATE_TIME,
    task_service_pb2.TASK_ORDER_CREATE_TIME: TaskOrder.CREATE_TIME,
    task_service_pb2.TASK_ORDER_START_TIME: TaskOrder.START_TIME,
    task_service_pb2.TASK_ORDER_UPDATE_TIME: TaskOrder.UPDATE_TIME,
    task_service_pb2.TASK_ORDER_PRIORITY: TaskOrder.PRIORITY,
    task_service_pb2.TASK_ORDER_STATE_TIME: TaskOrder.STATE_TIME,
}


def to_task(
    task: Task,
    now: int,
    artifacts: Iterable[Artifact] = (),
    history: Iterable[StateChange] = (),
) -> task_pb2.Task:
    """A task as clients see it."""
    request = task.request
    message = task_pb2.Task(
        task_id=task.id,
        context_id=task.context_id,
        capability_id=request.capability_id,
        tool_id=request.tool_id,
        arguments=request.arguments,
        message=None if request.message is None else to_message(request.message),
        metadata=request.metadata,
        options=to_options(task.options),
        principal=task.principal,
        state=cast("task_pb2.TaskState.ValueType", int(task.state)),
        state_reason=task.state_reason,
        state_time=timestamp(task.state_time),
        phase=cast("task_pb2.TaskPhase.ValueType", int(task.phase)),
        attempt=task.attempt.number,
        resume_pending=task.resume_pending,
        outcome=cast("task_pb2.Outcome.ValueType", int(task.outcome or 0)),
        retry_advice=cast("task_pb2.RetryAdvice.ValueType", int(task.advice or 0)),
        artifacts=[to_artifact(one, task.id) for one in artifacts],
        revision=task.revision,
        event_head=task.event_head,
        event_floor=task.event_floor,
        create_time=timestamp(task.create_time),
        start_time=timestamp(task.start_time),
        end_time=timestamp(task.end_time),
        update_time=timestamp(task.update_time),
        deadline_time=timestamp(task.deadline_time),
        state_history=[to_state_change(one) for one in history],
        retried_from=request.retried_from,
        reference_task_ids=request.reference_task_ids,
        trace_parent=request.trace_parent,
        direct_message=task.direct_message,
        working_time=duration(task.working_time(now)),
        estimated_duration=duration(request.estimated_duration_ms),
        result_reason=task.result_reason,
    )
    if task.progress is not None:
        message.progress.CopyFrom(to_progress(task.progress))
    if task.interruption is not None:
        message.interruption.CopyFrom(to_interruption(task.interruption))
    if task.result is not None:
        message.result = task.result
    if task.failure is not None:
        message.failure.CopyFrom(to_failure(task.failure))
    if task.resolution is not None:
        message.resolution.CopyFrom(to_resolution(task.resolution))
    if task.acceptance is not None:
        message.acceptance.CopyFrom(
            task_pb2.Acceptance(
                accepted=task.acceptance.accepted,
                reason=task.acceptance.reason,
                by=task.acceptance.by,
                time=timestamp(task.acceptance.at),
            )
        )
    return message


def to_resolution(closed: Resolved) -> task_pb2.Resolution:
    """How an uncertain failure was closed."""
    return task_pb2.Resolution(
        outcome=closed.outcome,
        evidence=closed.evidence,
        by=closed.by,
        time=timestamp(closed.at),
        retried_as=closed.retried_as,
    )


def to_state_change(change: StateChange) -> task_pb2.StateChange:
    """One entry of the state history."""
    return task_pb2.StateChange(
        state=cast("task_pb2.TaskState.ValueType", int(change.state)),
        time=timestamp(change.time),
        reason=change.reason,
        metadata=change.metadata,
        sequence=change.sequence,
    )


def to_options(options: Options) -> task_pb2.TaskOptions:
    """Options with their defaults filled in."""
    return task_pb2.TaskOptions(
        priority=cast("task_pb2.Priority.ValueType", int(options.priority)),
        timeout=duration(options.timeout_ms),
        retry=task_pb2.RetryPolicy(
            max_attempts=options.retry.max_attempts, delay=duration(options.retry.delay_ms)
        ),
        retry_safe=options.retry_safe,
        deadline=duration(options.deadline_ms),
        synchronous=options.synchronous,
    )


def from_create(
    request: task_service_pb2.CreateTaskRequest, now: int, trace_parent: str
) -> NewTask:
    """What a caller asks for; raises ArgumentInvalid that names the field."""
    if not request.capability_id:
        raise ArgumentInvalid("capability_id", "is required")
    options, retry_named = _options(request.options)
    message = None
    if request.HasField("message"):
        message = from_message(request.message, "message", now, Role.USER)
    return NewTask(
        capability_id=request.capability_id,
        arguments=request.arguments or "{}",
        message=message,
        context_id=request.context_id,
        options=options,
        retry_named=retry_named,
        metadata=request.metadata or "{}",
        request_id=request.request_id,
        reference_task_ids=tuple(request.reference_task_ids),
        session_id=request.session_id,
        trace_parent=trace_parent,
        webhooks=tuple(
            from_webhook(one, f"webhooks[{at}]") for at, one in enumerate(request.webhooks)
        ),
    )


def _options(message: task_pb2.TaskOptions) -> tuple[Options, bool]:
    timeout = 0
    if message.HasField("timeout"):
        timeout = span(message.timeout, "options.timeout", least=1, most=30 * DAY_MS)
    deadline = 0
    if message.HasField("deadline"):
        deadline = span(message.deadline, "options.deadline", most=7 * DAY_MS)
    retry, named = RetryPolicy(), message.HasField("retry") and message.retry.max_attempts != 0
    if message.HasField("retry"):
        if not 0 <= message.retry.max_attempts <= 100:
            raise ArgumentInvalid("options.retry.max_attempts", "must be between 1 and 100")
        delay = span(message.retry.delay, "options.retry.delay", most=DAY_MS)
        retry = RetryPolicy(message.retry.max_attempts or 1, delay)
    priority = Priority.NORMAL
    if message.priority:
        priority = member(Priority, message.priority, "options.priority")
    options = Options(priority, timeout, retry, message.retry_safe, deadline, message.synchronous)
    return options, named


def from_list(request: task_service_pb2.ListTasksRequest) -> TaskQuery:
    """A page that is asked for; raises ArgumentInvalid."""
    if not 0 <= request.page_size <= 200:
        raise ArgumentInvalid("page_size", "must be between 1 and 200")
    if not 0 <= request.skip <= HUGE_SKIP:
        raise ArgumentInvalid("skip", f"must be between 0 and {HUGE_SKIP}")
    if request.order not in _ORDERS:
        raise ArgumentInvalid("order", "is not known")
    return TaskQuery(
        states=tuple(member(TaskState, one, "states") for one in request.states),
        capability=request.capability_id,
        context_id=request.context_id,
        created_since=_bound(request, "created_since"),
        created_until=_bound(request, "created_until"),
        state_since=_bound(request, "state_since"),
        order=_ORDERS[request.order],
        ascending=request.ascending,
        limit=request.page_size or 50,
        skip=request.skip,
        after=from_page_token(request.page_token) if request.page_token else None,
        count=request.include_total,
    )


def _bound(request: task_service_pb2.ListTasksRequest, field: str) -> int:
    return milliseconds(getattr(request, field)) if request.HasField(field) else 0  # type: ignore[arg-type]


def to_page_token(query: TaskQuery, last: Task) -> str:
    """Where the next page begins."""
    value = {
        TaskOrder.CREATE_TIME: last.create_time,
        TaskOrder.START_TIME: last.start_time,
        TaskOrder.UPDATE_TIME: last.update_time,
        TaskOrder.PRIORITY: int(last.options.priority),
        TaskOrder.STATE_TIME: last.state_time,
    }[query.order]
    return base64.urlsafe_b64encode(json.dumps([value, last.id]).encode()).decode()


def from_page_token(token: str) -> tuple[int, str]:
    """Raises ArgumentInvalid for anything that `to_page_token` did not make."""
    try:
        value, task_id = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (ValueError, TypeError):
        raise ArgumentInvalid("page_token", "is not one of ours") from None
    if not isinstance(value, int) or not isinstance(task_id, str):
        raise ArgumentInvalid("page_token", "is not one of ours")
    return value, task_id


def from_offset_token(token: str) -> int:
    """The offset of a token of the short lists; 0 for none."""
    if not token:
        return 0
    if not token.isascii() or not token.isdigit() or len(token) > 9:
        raise ArgumentInvalid("page_token", "is not one of ours")
    return int(token)


def page_size(asked: int) -> int:
    """A page size inside its bounds."""
    if not 0 <= asked <= 200:
        raise ArgumentInvalid("page_size", "must be between 1 and 200")
    return asked or 50
