"""Message envelopes: their states, and what the last reply makes of the task (Y15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.domain import lifecycle, reports
from aiosd.domain.content import Message, MessageStatus, Part, PartKind, Role
from aiosd.domain.errors import ArgumentInvalid, Refusal, ReportRefused
from aiosd.domain.event import MessageChanged
from aiosd.domain.failure import TIMEOUT, Failure, FailureClass, Outcome
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.state import TaskState
from tests.support.builders import HOLDER, a_draft, drive, reopen

if TYPE_CHECKING:
    from aiosd.domain.draft import Draft

M = MessageStatus
TERMINAL = [M.COMPLETED, M.FAILED, M.REFUSED, M.CANCELLED]
REQUEST = Message("req-1", Role.USER, (Part(PartKind.TEXT, "do it"),))


def working(**members: object) -> Draft:
    """A task that runs and was asked for by a message."""
    return reopen(drive(a_draft(message=REQUEST, **members), TaskState.WORKING))


def a_reply(
    message_id: str = "m", status: M = M.COMPLETED, stop: str = "", to: str = ""
) -> Message:
    said = (Part(PartKind.TEXT, "hi"),)
    return Message(message_id, Role.AGENT, said, status, stop, in_reply_to=to)


@pytest.mark.req("R159")
@pytest.mark.parametrize("end", TERMINAL)
def test_a_streaming_reply_ends_once_and_is_then_immutable(end: M) -> None:
    draft = working()
    reports.message(draft, a_reply(status=M.STREAMING))
    reports.message(draft, a_reply(status=M.STREAMING))
    assert draft.task.open_messages == ("m",)
    reports.message(draft, a_reply(status=end))
    assert (draft.messages["m"].status, draft.task.open_messages) == (end, ())
    before = draft.messages["m"], list(draft.events)
    for after in M:
        with pytest.raises(ArgumentInvalid):
            reports.message(draft, a_reply(status=after))
    assert (draft.messages["m"], draft.events) == before


@pytest.mark.req("R159")
def test_words_of_others_cannot_be_put_into_a_providers_mouth() -> None:
    draft = working()
    for wrong in (
        Message("x", Role.USER, status=M.COMPLETED),
        a_reply(status=M.FAILED, stop="agent_lost"),
    ):
        with pytest.raises(ReportRefused):
            reports.message(draft, wrong)
    with pytest.raises(Refusal):
        reports.message(draft, a_reply("req-1"))  # the request is not the agent's to change
    assert not draft.events


@pytest.mark.req("R160", "R161", "Y15")
@pytest.mark.parametrize("status", list(M))
def test_messages_alone_never_change_the_task(status: M) -> None:
    draft = working()
    reports.message(draft, a_reply(status=status))
    assert draft.task.state is TaskState.WORKING
    assert all(isinstance(one.payload, MessageChanged) for one in draft.events)


@pytest.mark.req("R160")
def test_a_completed_user_message_never_completes_a_task() -> None:
    submitted = a_draft(message=REQUEST)
    assert submitted.changed_messages["req-1"].status is M.COMPLETED
    assert submitted.task.state is TaskState.SUBMITTED
    draft = working()
    reports.complete_by_message(draft)
    assert draft.task.state is TaskState.FAILED


@pytest.mark.req("R161", "Y15")
@pytest.mark.parametrize(
    ("status", "stop", "state", "reason"),
    [
        (M.COMPLETED, "end_turn", TaskState.COMPLETED, ""),
        (M.COMPLETED, "", TaskState.COMPLETED, ""),
        (M.COMPLETED, "max_tokens", TaskState.COMPLETED, "max_tokens"),
        (M.FAILED, "error", TaskState.FAILED, "error"),
        (M.FAILED, "timeout", TaskState.FAILED, "timeout"),
        (M.CANCELLED, "timeout", TaskState.FAILED, "timeout"),
        (M.CANCELLED, "user_stop", TaskState.CANCELED, "user_stop"),
        (M.REFUSED, "refused", TaskState.REJECTED, "rejected"),
        (M.REFUSED, "content_filter", TaskState.REJECTED, "rejected"),
    ],
)
def test_the_last_reply_decides_the_outcome(
    status: M, stop: str, state: TaskState, reason: str
) -> None:
    draft = working()
    reports.message(draft, a_reply("first", M.FAILED, "error"))
    reports.message(draft, a_reply("last", status, stop, to="req-1"))
    reports.complete_by_message(draft)
    task = draft.task
    assert (task.state, task.state_reason) == (state, reason)
    assert (task.outcome, task.held) == (Outcome.CERTAIN, False)
    if reason == "timeout":
        assert task.failure is not None
        assert task.failure.code == TIMEOUT


@pytest.mark.req("R161", "Y15")
@pytest.mark.parametrize(("status", "stop"), [(M.STREAMING, ""), (M.COMPLETED, "tool_use")])
def test_a_reply_that_is_not_final_proves_no_success(status: M, stop: str) -> None:
    draft = working()
    reports.message(draft, a_reply("first", M.COMPLETED, "end_turn"))
    reports.message(draft, a_reply("last", status, stop))
    reports.complete_by_message(draft)
    assert draft.task.state is TaskState.FAILED
    assert draft.task.failure is not None
    assert draft.task.failure.failure_class is FailureClass.PROTOCOL_ERROR


@pytest.mark.req("R161", "Y15")
def test_only_replies_to_the_request_of_the_task_count() -> None:
    draft = working()
    reports.message(draft, a_reply("answer", M.COMPLETED, "end_turn", to="req-1"))
    reports.message(draft, a_reply("aside", M.FAILED, "error", to="another-message"))
    reports.complete_by_message(draft)
    assert draft.task.state is TaskState.COMPLETED


@pytest.mark.req("R159")
@pytest.mark.parametrize(
    ("end", "status", "stop"),
    [
        (lambda draft: lifecycle.complete(draft, "1"), M.COMPLETED, ""),
        (
            lambda draft: lifecycle.fail(draft, Failure(-32603, "broken", "error")),
            M.FAILED,
            "error",
        ),
        (lambda draft: lifecycle.reject(draft, "no"), M.REFUSED, "refused"),
        (lambda draft: lifecycle.cancel(draft, "enough"), M.CANCELLED, "user_stop"),
        (lifecycle.time_out, M.CANCELLED, "timeout"),
        (lifecycle.lose, M.FAILED, "agent_lost"),
    ],
    ids=["completed", "failed", "rejected", "canceled", "timeout", "lost"],
)
def test_no_reply_streams_on_after_its_task_has_ended(end: object, status: M, stop: str) -> None:
    draft = working(timeout_ms=10)
    reports.message(draft, a_reply("whole"))
    reports.message(draft, a_reply("part", M.STREAMING))
    draft = reopen(draft)
    end(draft)  # type: ignore[operator]
    assert draft.task.terminal
    assert draft.changed_messages.keys() == {"part"}
    part = draft.changed_messages["part"]
    assert (part.status, part.stop_reason, part.parts) == (status, stop, a_reply().parts)
    assert draft.task.open_messages == ()
    # Readers stop at the end of the task, so the reply's end comes before it.
    told = [type(one.payload).__name__ for one in draft.events]
    assert told.index("MessageChanged") < told.index("StatusChanged")


@pytest.mark.req("R159")
def test_a_lost_attempt_that_is_repeated_does_not_leave_its_reply_open() -> None:
    draft = working(retry_safe=True, retry=RetryPolicy(2))
    reports.message(draft, a_reply("part", M.STREAMING))
    lifecycle.lose(draft)
    assert draft.task.state is TaskState.WORKING
    assert draft.messages["part"].stop_reason == "agent_lost"
    lifecycle.start(draft, HOLDER)
    reports.message(draft, a_reply("again"))
    reports.complete_by_message(draft)
    assert draft.task.state is TaskState.COMPLETED
