"""Tasks in any state, made by the commands that make them in the service."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiosd.domain import lifecycle, waits
from aiosd.domain.capability import Capability, PermissionLevel
from aiosd.domain.draft import Draft
from aiosd.domain.failure import Failure
from aiosd.domain.interruption import AuthRequest, AuthType, Interruption, NeedKind
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.state import TaskState
from aiosd.domain.task import Options, TaskRequest
from tests.support.manual_clock import START

if TYPE_CHECKING:
    from aiosd.domain.task import Task

HOLDER = "sess-1"


def a_capability(capability_id: str = "demo.work", **members: Any) -> Capability:
    """Public and pausable unless told otherwise."""
    members = {"level": PermissionLevel.PUBLIC, "pausable": True, **members}
    return Capability(capability_id, **members)


def a_request(**members: Any) -> TaskRequest:
    """A request to a pausable capability; option names are taken as options."""
    names = {"priority", "timeout_ms", "retry_safe", "deadline_ms", "synchronous", "retry"}
    options = {name: members.pop(name) for name in names & members.keys()}
    attempts = members.pop("max_attempts", 1)
    options.setdefault("retry", RetryPolicy(attempts, members.pop("delay_ms", 0)))
    capability = {"capability_id": "demo.work", "tool_id": "demo", "pausable": True}
    return TaskRequest(**{**capability, "options": Options(**options), **members})


def a_draft(now: int = START, **members: Any) -> Draft:
    """A new task, submitted and not committed; the members are those of its request."""
    return lifecycle.submit(
        task_id="task-1",
        context_id="ctx-1",
        principal="ann",
        request=a_request(**members),
        now=now,
    )


def a_question(action: str = "ask-1", **members: Any) -> Interruption:
    """A wait for business input."""
    asked = {"kind": NeedKind.BUSINESS_INPUT, "prompt": "which?", "create_time": START, **members}
    return Interruption(f"int-{action}", action=action, **asked)


def a_need(action: str = "auth-1", **members: Any) -> Interruption:
    """A wait for an API key."""
    request = AuthRequest(AuthType.API_KEY, reason="to look")
    asked = {"kind": NeedKind.MACHINE_CREDENTIAL, "auth_request": request, **members}
    return Interruption(f"int-{action}", action=action, **asked)


def drive(draft: Draft, state: TaskState) -> Draft:
    """Take a new draft into a state by the shortest way."""
    if state is TaskState.CANCELED:
        lifecycle.cancel(draft, "enough")
    elif state is not TaskState.SUBMITTED:
        lifecycle.start(draft, HOLDER)
    match state:
        case TaskState.COMPLETED:
            lifecycle.complete(draft, "1")
        case TaskState.FAILED:
            lifecycle.fail(draft, Failure(-32603, "broken", "error"))
        case TaskState.REJECTED:
            lifecycle.reject(draft, "no")
        case TaskState.PAUSED:
            waits.pause(draft, "")
        case TaskState.INPUT_REQUIRED:
            waits.interrupt(draft, a_question())
        case TaskState.AUTH_REQUIRED:
            waits.interrupt(draft, a_need())
    return draft


def reopen(draft: Draft, now: int | None = None) -> Draft:
    """The draft of the next change, as after a commit of this one."""
    return Draft(
        draft.task,
        draft.now if now is None else now,
        artifacts=dict(draft.artifacts),
        messages={**draft.messages, **draft.changed_messages},
        began_in=draft.task.state,
    )


def a_task(state: TaskState = TaskState.SUBMITTED, **members: Any) -> Task:
    """A committed task in a state."""
    return drive(a_draft(**members), state).task


def as_stored(task: Task, **members: Any) -> Task:
    """The task with other members."""
    return replace(task, **members)
