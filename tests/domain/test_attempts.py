"""Attempts: what is repeated, what is lost, and what is known in the end (R099, R145-R147, I16)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aiosd.domain import lifecycle, reports, waits
from aiosd.domain.errors import ArgumentInvalid, NotResolvable, ReportRefused, TaskStateInvalid
from aiosd.domain.event import AttemptChanged, StatusChanged, TaskFailed
from aiosd.domain.failure import RETRYABLE_CODES, Failure, FailureClass, Outcome, RetryAdvice
from aiosd.domain.state import TaskState
from aiosd.domain.task import Phase
from tests.support.builders import HOLDER, a_draft, a_question, drive, reopen

if TYPE_CHECKING:
    from aiosd.domain.draft import Draft

S = TaskState
BROKEN = Failure(-32603, "broken", "error")
FLAKY = Failure(-32603, "flaky", "error", retryable=True)


def working(**members: object) -> Draft:
    return reopen(drive(a_draft(**members), S.WORKING))


@pytest.mark.req("R099", "R100", "X06", "I17")
def test_three_attempts_are_three_executions_inside_working() -> None:
    draft = working(max_attempts=3, delay_ms=50)
    lifecycle.fail(draft, FLAKY)
    assert (draft.task.state, draft.task.phase) == (S.WORKING, Phase.BACKING_OFF)
    assert draft.task.due_time() == draft.now + 50
    lifecycle.back_off_over(draft)
    assert lifecycle.start(draft, HOLDER) == 2
    lifecycle.fail(draft, FLAKY)
    lifecycle.back_off_over(draft)
    assert lifecycle.start(draft, HOLDER) == 3
    lifecycle.fail(draft, FLAKY)
    assert draft.task.state is S.FAILED
    assert (draft.task.outcome, draft.task.advice) == (Outcome.CERTAIN, RetryAdvice.RESUBMIT)
    told = [one.payload for one in draft.events if isinstance(one.payload, AttemptChanged)]
    assert [(one.attempt, one.change) for one in told] == [
        (1, "failed"),
        (2, "started"),
        (2, "failed"),
        (3, "started"),
    ]


@pytest.mark.req("R153", "X43")
def test_a_failure_with_the_code_of_a_rejection_is_one() -> None:
    draft = working()
    lifecycle.fail(draft, Failure(-32113, "not my line", "error"))
    assert draft.task.state is S.REJECTED
    assert draft.task.failure is not None
    assert draft.task.failure.failure_class is FailureClass.TASK_REJECTED
    assert json.loads(draft.task.failure.data)["details"] == "not my line"


@pytest.mark.req("R100")
def test_a_failure_that_is_not_retryable_is_final_at_once() -> None:
    draft = working(max_attempts=3)
    lifecycle.fail(draft, BROKEN)
    assert (draft.task.state, draft.task.advice) == (S.FAILED, RetryAdvice.NONE)
    assert {-32005, -32007} == RETRYABLE_CODES


@pytest.mark.req("R039", "R069", "R106")
def test_a_failure_is_told_after_its_status() -> None:
    draft = working()
    lifecycle.fail(draft, BROKEN)
    assert [type(one.payload) for one in draft.events] == [StatusChanged, TaskFailed]
    assert draft.task.end_time == draft.now


@pytest.mark.req("I16", "R146", "R147", "X07")
def test_a_lost_attempt_is_uncertain_and_not_repeated() -> None:
    draft = working(max_attempts=3)
    lifecycle.lose(draft)
    task = draft.task
    assert task.state is S.FAILED
    assert (task.outcome, task.advice) == (Outcome.UNCERTAIN, RetryAdvice.MANUAL_REVIEW)
    assert task.failure is not None
    assert (task.failure.code, task.failure.reason) == (-32004, "agent_lost")
    data = json.loads(task.failure.data)
    assert data["reason"] == "agent_lost"
    assert (data["outcome_certainty"], data["retry_policy"]) == ("uncertain", "manual_review")


@pytest.mark.req("I17", "X07")
def test_a_lost_attempt_that_is_safe_to_repeat_is_repeated_while_attempts_are_left() -> None:
    draft = working(max_attempts=2, retry_safe=True)
    lifecycle.lose(draft)
    assert (draft.task.state, draft.task.phase) == (S.WORKING, Phase.QUEUED)
    assert not draft.task.held
    lifecycle.start(draft, "sess-2")
    lifecycle.lose(draft)
    assert draft.task.state is S.FAILED
    assert draft.task.outcome is Outcome.UNCERTAIN


@pytest.mark.req("I17")
@pytest.mark.parametrize("state", [S.PAUSED, S.INPUT_REQUIRED, S.AUTH_REQUIRED])
def test_a_task_that_stands_goes_on_in_a_new_attempt_when_its_provider_is_lost(state: S) -> None:
    draft = reopen(drive(a_draft(max_attempts=2, retry_safe=True), state))
    lifecycle.lose(draft)
    assert draft.task.state is state
    if state is S.PAUSED:
        waits.resume(draft, "", slot=True)
    elif state is S.INPUT_REQUIRED:
        waits.answer(draft, "{}", "", slot=True)
    else:
        waits.authorize(draft, "", "given", slot=True)
    assert (draft.task.state, draft.task.phase) == (S.WORKING, Phase.QUEUED)
    assert lifecycle.start(draft, "sess-2") == 2


@pytest.mark.req("I14")
def test_an_attempt_without_go_ahead_did_not_happen() -> None:
    draft = working()
    lifecycle.requeue(draft, "provider lost before the go-ahead")
    assert draft.task.attempt.number == 0
    lifecycle.cancel(draft, "")
    assert draft.task.outcome is Outcome.NOT_STARTED


@pytest.mark.req("R185", "I25")
def test_checkpoint_and_answers_survive_into_the_next_attempt() -> None:
    draft = working(max_attempts=2, retry_safe=True)
    reports.save(draft, '{"at":7}')
    waits.interrupt(draft, a_question())
    waits.answer(draft, '{"a":1}', "", slot=True)
    lifecycle.lose(draft)
    lifecycle.start(draft, "sess-2")
    assert draft.task.attempt.checkpoint == '{"at":7}'
    assert [(one.action, one.input) for one in draft.task.answers] == [("ask-1", '{"a":1}')]
    with pytest.raises(ReportRefused):
        reports.save(draft, "x" * 65_537)


@pytest.mark.req("R095", "R096", "R145", "X05", "Y06")
@pytest.mark.parametrize(
    ("safe", "outcome", "advice"),
    [
        (False, Outcome.UNCERTAIN, RetryAdvice.MANUAL_REVIEW),
        (True, Outcome.CERTAIN, RetryAdvice.RESUBMIT),
    ],
)
def test_a_timeout_while_running(safe: bool, outcome: Outcome, advice: RetryAdvice) -> None:
    draft = working(timeout_ms=100, retry_safe=safe)
    waits.interrupt(draft, a_question())
    draft = reopen(draft, draft.now + 10_000)
    waits.answer(draft, "{}", "", slot=True)  # ten seconds of waiting do not count
    assert draft.task.due_time() == draft.now + 100
    draft = reopen(draft, draft.now + 120)
    lifecycle.time_out(draft)
    task = draft.task
    assert (task.state, task.outcome, task.advice) == (S.FAILED, outcome, advice)
    assert task.failure is not None
    assert (task.failure.code, task.failure.message) == (-32005, "Timeout")
    assert json.loads(task.failure.data) == {
        "capability_id": "demo.work",
        "timeout_ms": 100,
        "elapsed_ms": 120,
    }


@pytest.mark.req("Y06", "Y04")
def test_a_deadline_before_the_start_is_certain_that_nothing_happened() -> None:
    draft = a_draft(deadline_ms=100)
    assert draft.task.due_time() == draft.now + 100
    draft = reopen(draft, draft.now + 100)
    lifecycle.pass_deadline(draft)
    assert (draft.task.state, draft.task.outcome) == (S.FAILED, Outcome.NOT_STARTED)
    assert draft.task.advice is RetryAdvice.RESUBMIT


@pytest.mark.req("R026", "R037", "X10", "I16")
@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (S.SUBMITTED, Outcome.NOT_STARTED),
        (S.WORKING, Outcome.UNCERTAIN),
        (S.PAUSED, Outcome.UNCERTAIN),
        (S.INPUT_REQUIRED, Outcome.UNCERTAIN),
    ],
)
def test_cancel_ends_at_once_and_says_what_is_known(state: S, outcome: Outcome) -> None:
    draft = reopen(drive(a_draft(), state))
    lifecycle.cancel(draft, "enough")
    assert (draft.task.state, draft.task.outcome) == (S.CANCELED, outcome)
    assert draft.history[-1].reason == "enough"
    assert not draft.task.held


@pytest.mark.req("R049", "I15")
def test_the_fence_lets_only_the_holder_of_the_current_attempt_speak() -> None:
    task = working().task
    reports.check_holder(task, 1, HOLDER)
    for attempt, holder in ((1, "sess-2"), (2, HOLDER), (0, ""), (1, "")):
        with pytest.raises(ReportRefused) as refused:
            reports.check_holder(task, attempt, holder)
        assert refused.value.code == "ATTEMPT_FENCED"
    ended = drive(a_draft(), S.CANCELED).task
    with pytest.raises(ReportRefused) as refused:
        reports.check_holder(ended, 1, HOLDER)
    assert refused.value.code == "TASK_TERMINAL"


@pytest.mark.req("R036", "I20")
@pytest.mark.parametrize("state", [one for one in S if one is not S.SUBMITTED])
def test_only_a_queued_task_is_started(state: S) -> None:
    draft = reopen(drive(a_draft(), state))
    with pytest.raises(TaskStateInvalid):
        lifecycle.start(draft, "sess-2")


@pytest.mark.req("R037", "R121", "X03")
def test_what_cannot_be_dispatched_fails_from_submitted() -> None:
    draft = a_draft()
    lifecycle.refuse_dispatch(draft, BROKEN)
    assert (draft.task.state, draft.task.outcome) == (S.FAILED, Outcome.NOT_STARTED)


@pytest.mark.req("R197", "Z38")
@pytest.mark.parametrize(
    ("state", "outcome"), [(S.SUBMITTED, Outcome.NOT_STARTED), (S.WORKING, Outcome.CERTAIN)]
)
def test_a_rejection_says_whether_work_had_begun(state: S, outcome: Outcome) -> None:
    draft = reopen(drive(a_draft(), state))
    lifecycle.reject(draft, "not mine")
    assert (draft.task.state, draft.task.outcome) == (S.REJECTED, outcome)
    assert draft.task.failure is not None
    assert draft.task.failure.failure_class is FailureClass.TASK_REJECTED


@pytest.mark.req("R146", "R147")
def test_an_uncertain_failure_is_closed_by_a_person_without_changing_its_state() -> None:
    draft = working()
    lifecycle.lose(draft)
    draft = reopen(draft)
    for outcome, evidence in (("maybe", "seen"), ("completed", ""), ("completed", "x" * 4097)):
        with pytest.raises(ArgumentInvalid):
            lifecycle.resolve(draft, outcome, evidence, "ann")
    lifecycle.resolve(draft, "completed", "the file is there", "ann")
    assert (draft.task.state, draft.task.outcome) == (S.FAILED, Outcome.CERTAIN)
    assert not draft.history
    with pytest.raises(NotResolvable):
        lifecycle.resolve(draft, "completed", "again", "ann")


@pytest.mark.req("R199", "Z41")
def test_an_unacceptable_result_is_recorded_and_the_task_stays_completed() -> None:
    draft = reopen(drive(a_draft(), S.COMPLETED))
    lifecycle.judge(draft, False, "wrong page", "ann")
    assert draft.task.state is S.COMPLETED
    assert draft.task.acceptance is not None
    assert not draft.task.acceptance.accepted
    with pytest.raises(TaskStateInvalid):
        lifecycle.judge(reopen(drive(a_draft(), S.FAILED)), False, "", "ann")


@pytest.mark.req("R196", "Z28")
def test_a_second_completion_changes_nothing() -> None:
    draft = reopen(drive(a_draft(), S.COMPLETED))
    before = draft.task
    with pytest.raises(TaskStateInvalid):
        lifecycle.complete(draft, "2")
    assert draft.task is before
