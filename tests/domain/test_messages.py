"""Message envelopes, and how the last reply decides the outcome (R159-R161, Y15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.domain import lifecycle, reports
from aiosd.domain.content import Message, MessageStatus, Part, PartKind, Progress, Role
from aiosd.domain.errors import ArgumentInvalid, ReportRefused
from aiosd.domain.failure import FailureClass, Outcome, RetryAdvice
from aiosd.domain.state import TaskState
from tests.support.builders import a_draft, drive, reopen

if TYPE_CHECKING:
    from aiosd.domain.draft import Draft

M = MessageStatus
S = TaskState


def working(**members: object) -> Draft:
    return reopen(drive(a_draft(**members), S.WORKING))


def reply(message_id: str = "m-1", status: M = M.COMPLETED, **members: object) -> Message:
    return Message(message_id, Role.AGENT, status=status, **members)


@pytest.mark.req("R159")
@pytest.mark.parametrize("end", [M.COMPLETED, M.FAILED, M.REFUSED, M.CANCELLED])
def test_a_streaming_message_ends_once_and_is_immutable_then(end: M) -> None:
    draft = working()
    reports.message(draft, reply(status=M.STREAMING))
    reports.message(draft, reply(status=M.STREAMING, parts=(Part(PartKind.TEXT, "more"),)))
    reports.message(draft, reply(status=end))
    before = draft.task
    with pytest.raises(ArgumentInvalid):
        reports.message(draft, reply(status=M.COMPLETED))
    assert draft.task is before


@pytest.mark.req("R159")
def test_an_end_of_the_task_ends_the_replies_that_still_stream() -> None:
    draft = working()
    reports.message(draft, reply(status=M.STREAMING))
    lifecycle.cancel(draft, "enough")
    assert draft.changed_messages["m-1"].status is M.CANCELLED
    assert draft.task.open_messages == ()


@pytest.mark.req("R159", "S-38")
def test_a_provider_writes_as_agent_and_never_says_that_it_was_lost() -> None:
    draft = working()
    with pytest.raises(ReportRefused):
        reports.message(draft, Message("m-1", Role.USER))
    with pytest.raises(ReportRefused):
        reports.message(draft, reply(status=M.FAILED, stop_reason="agent_lost"))
    assert not draft.changed_messages


@pytest.mark.req("R160")
def test_a_completed_message_never_completes_a_task() -> None:
    draft = working(message=Message("m-0", Role.USER))
    reports.message(draft, reply())
    assert draft.task.state is S.WORKING


DECIDED = [
    (M.COMPLETED, "end_turn", S.COMPLETED, ""),
    (M.COMPLETED, "", S.COMPLETED, ""),
    (M.COMPLETED, "max_tokens", S.COMPLETED, "max_tokens"),
    (M.FAILED, "error", S.FAILED, "error"),
    (M.FAILED, "timeout", S.FAILED, "timeout"),
    (M.CANCELLED, "timeout", S.FAILED, "timeout"),
    (M.CANCELLED, "user_stop", S.CANCELED, "user_stop"),
    (M.REFUSED, "content_filter", S.REJECTED, "rejected"),
    (M.REFUSED, "refused", S.REJECTED, "rejected"),
]


@pytest.mark.req("R161", "Y15")
@pytest.mark.parametrize(("status", "stop", "state", "reason"), DECIDED)
def test_the_last_agent_reply_decides(status: M, stop: str, state: S, reason: str) -> None:
    draft = working()
    reports.message(draft, reply("m-1", M.FAILED, stop_reason="error"))
    reports.message(draft, reply("m-2", status, stop_reason=stop))
    reports.complete_by_message(draft)
    assert (draft.task.state, draft.task.state_reason) == (state, reason)
    assert draft.task.outcome is Outcome.CERTAIN


@pytest.mark.req("R161", "Y15", "R197")
@pytest.mark.parametrize(
    "last",
    [reply(stop_reason="tool_use"), reply(status=M.STREAMING), None],
    ids=["stopped for a tool", "streams", "none"],
)
def test_an_end_without_a_final_reply_is_a_broken_protocol(last: Message | None) -> None:
    draft = working()
    if last is not None:
        reports.message(draft, last)
    reports.complete_by_message(draft)
    assert draft.task.state is S.FAILED
    assert draft.task.failure is not None
    assert draft.task.failure.failure_class is FailureClass.PROTOCOL_ERROR


@pytest.mark.req("R161", "Y15")
def test_only_replies_to_the_request_count() -> None:
    draft = working(message=Message("m-0", Role.USER))
    reports.message(draft, reply("m-1", in_reply_to="m-0"))
    reports.message(draft, reply("m-2", M.FAILED, stop_reason="error", in_reply_to="m-other"))
    reports.complete_by_message(draft)
    assert draft.task.state is S.COMPLETED


@pytest.mark.req("R161", "Y04")
def test_a_reply_that_timed_out_may_be_asked_for_again() -> None:
    draft = working()
    reports.message(draft, reply(status=M.FAILED, stop_reason="timeout"))
    reports.complete_by_message(draft)
    assert draft.task.failure is not None
    assert draft.task.failure.code == -32005
    assert draft.task.advice in (RetryAdvice.NONE, RetryAdvice.RESUBMIT)


@pytest.mark.req("R020")
@pytest.mark.parametrize("percent", [-0.1, 100.1, float("nan"), float("inf")])
def test_progress_out_of_bounds_names_its_field(percent: float) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        Progress(percent)
    assert refused.value.field == "progress.percent"


@pytest.mark.req("R020")
def test_progress_steps_are_not_negative() -> None:
    for name in ("current_step", "total_steps"):
        with pytest.raises(ArgumentInvalid) as refused:
            Progress(1, **{name: -1})
        assert refused.value.field == f"progress.{name}"
    assert Progress(100, current_step=0, total_steps=0).percent == 100


@pytest.mark.req("R186", "Z18", "Z19")
def test_presence_decides_what_a_part_is() -> None:
    assert Part(PartKind.TEXT, "").size == 0
    assert Part(PartKind.DATA, "null").size == 4
    assert Part(PartKind.RAW, raw=b"\x00\x01").size == 2
    assert Part(PartKind.TEXT, "é").size == 2
