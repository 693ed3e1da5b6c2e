"""Waiting and going on: interruptions, pauses, answers (Z14, X04, X08, X09).

Commands as in lifecycle.py. The daemon decides whether there is a slot and tells them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.domain import lifecycle
from aiosd.domain.errors import (
    ArgumentInvalid,
    InterruptionMismatch,
    NotPausable,
    TaskStateInvalid,
)
from aiosd.domain.event import AuthRequired, InputRequired, MessageChanged
from aiosd.domain.interruption import Interruption, NeedKind, PastAnswer
from aiosd.domain.state import TaskState, allowed
from aiosd.domain.task import Phase, Task

if TYPE_CHECKING:
    from aiosd.domain.content import Message
    from aiosd.domain.draft import Draft


def interrupt(draft: Draft, wait: Interruption) -> None:
    """The task needs somebody: INPUT_REQUIRED or AUTH_REQUIRED with its companion (R054, R067)."""
    business = wait.kind is NeedKind.BUSINESS_INPUT
    target = TaskState.INPUT_REQUIRED if business else TaskState.AUTH_REQUIRED
    metadata: dict[str, object] = {"prompt": wait.prompt}
    if business:
        metadata["options_count"] = len(wait.options)
    elif wait.auth_request is not None:
        metadata["type"] = wait.auth_request.type.name.lower()
    draft.enter(
        target,
        "wait",
        reason=wait.prompt,
        metadata=json.dumps(metadata, ensure_ascii=False),
        phase=Phase.RUNNING if draft.task.held else Phase.NONE,
        interruption=wait,
        granted=None,
    )
    draft.emit(InputRequired(wait) if business else AuthRequired(wait))


def open_wait(task: Task, state: TaskState, attempted: str, interruption_id: str) -> Interruption:
    """The interruption that an answer is for; raises TaskStateInvalid, InterruptionMismatch."""
    wait = task.interruption
    if task.state is not state or wait is None:
        raise TaskStateInvalid(task.state, attempted)
    if task.resume_pending:
        raise TaskStateInvalid(task.state, attempted, "it was answered and waits for a slot")
    if interruption_id and interruption_id != wait.interruption_id:
        raise InterruptionMismatch(
            "the answer is for another interruption", {"field": "interruption_id"}
        )
    return wait


def answer(
    draft: Draft,
    answer_json: str,
    interruption_id: str,
    *,
    slot: bool,
    message: Message | None = None,
) -> Interruption:
    """Input was given and fits (the caller has checked options and schema).

    `message` carried it; the draft holds the messages that the task has.
    """
    wait = open_wait(draft.task, TaskState.INPUT_REQUIRED, "input", interruption_id)
    if message is not None:
        if message.message_id in draft.messages:
            raise ArgumentInvalid("message.message_id", "is used by another message of the task")
        draft.messages[message.message_id] = message
        draft.changed_messages[message.message_id] = message
        draft.emit(MessageChanged(message))
    kept = PastAnswer(wait.action, wait.prompt, answer_json, wait.attempt)
    others = tuple(one for one in draft.task.answers if one.action != wait.action)
    draft.update(answers=(*others, kept))
    _go_on(draft, "input", "input received", slot)
    return wait


def authorize(draft: Draft, interruption_id: str, reason: str, *, slot: bool) -> Interruption:
    """The credential or approval was accepted; its content is not part of the task (R113)."""
    wait = open_wait(draft.task, TaskState.AUTH_REQUIRED, "authenticate", interruption_id)
    draft.update(granted=wait if wait.kind is NeedKind.MACHINE_CREDENTIAL else None)
    _go_on(draft, "authenticate", reason, slot)
    return wait


def ask_approval(draft: Draft, wait: Interruption) -> None:
    """A person must allow it before anybody is offered the task (X35): through WORKING, at once."""
    if draft.task.state is TaskState.SUBMITTED:
        draft.enter(TaskState.WORKING, "start", reason="permission needed", phase=Phase.QUEUED)
    interrupt(draft, wait)


def permit(draft: Draft) -> None:
    """It may be dispatched: granted, or allowed by the policy."""
    draft.update(permitted=True)


def approve(draft: Draft, interruption_id: str, by: str, *, slot: bool) -> None:
    """A person allowed it; it is queued and not asked for again."""
    open_wait(draft.task, TaskState.AUTH_REQUIRED, "authenticate", interruption_id)
    draft.update(permitted=True, granted=None)
    _go_on(draft, "authenticate", f"approved by {by}", slot)


def note_confirmation(draft: Draft, confirmations: int) -> None:
    """The first of two confirmations of an approval was given."""
    wait = draft.task.interruption
    if wait is not None and wait.auth_request is not None:
        request = replace(wait.auth_request, confirmations=confirmations)
        draft.update(interruption=replace(wait, auth_request=request))


def pause(draft: Draft, reason: str) -> None:
    """The attempt stands at a checkpoint, or there is none that could run (R027)."""
    check_pausable(draft.task)
    draft.enter(TaskState.PAUSED, "pause", reason=reason or "paused by user")


def check_pausable(task: Task) -> None:
    """Raises TaskStateInvalid or NotPausable (X09)."""
    if task.state is not TaskState.WORKING:
        raise TaskStateInvalid(task.state, "pause")
    if not task.request.pausable:
        raise NotPausable(
            f"capability {task.request.capability_id} cannot be paused",
            {
                "state": task.state.word,
                "attempted": "pause",
                "allowed": ",".join(one.word for one in allowed(task.state)),
                "capability_id": task.request.capability_id,
            },
        )


def resume(draft: Draft, reason: str, *, slot: bool) -> None:
    """A paused task goes on, or waits for a slot (R028)."""
    task = draft.task
    if task.state is not TaskState.PAUSED:
        raise TaskStateInvalid(task.state, "resume")
    if not task.resume_pending:
        _go_on(draft, "resume", reason or "resumed by user", slot)


def take_slot(draft: Draft) -> None:
    """A slot is free for a task that was accepted to go on (X08)."""
    if draft.task.resume_pending:
        _go_on(draft, "resume", draft.task.state_reason, slot=True)


def withdraw_resume(draft: Draft) -> None:
    """The credential of an accepted answer was lost with the process: ask again, aloud."""
    wait = draft.task.granted
    if wait is None or not draft.task.resume_pending:
        return
    if not draft.task.held:
        draft.update(granted=None)  # the attempt that asked is gone; the next one asks itself
        return
    until = draft.now + wait.timeout_ms if wait.timeout_ms else 0
    again = replace(wait, create_time=draft.now, expire_time=until)
    draft.update(phase=Phase.RUNNING, granted=None, interruption=again)
    draft.emit(AuthRequired(again))


def ask_again(draft: Draft, expire_time: int) -> None:
    """The provider still waits for a credential that was accepted and then lost."""
    wait = draft.task.granted
    if wait is not None and draft.task.state is TaskState.WORKING:
        draft.update(granted=None)
        interrupt(draft, replace(wait, expire_time=expire_time, create_time=draft.now))


def _go_on(draft: Draft, attempted: str, reason: str, slot: bool) -> None:
    if not slot:
        draft.update(phase=Phase.RESUME_PENDING, state_reason=reason)
        return
    held = draft.task.held
    draft.enter(
        TaskState.WORKING,
        attempted,
        reason=reason,
        phase=Phase.RUNNING if held else Phase.QUEUED,
        interruption=None,
    )
    lifecycle.give_up_abandoned(draft)
