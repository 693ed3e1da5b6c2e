"""Commands: what may be done to a task. Each takes a Draft, checks, then changes it.

A command that the rules forbid raises a Refusal and leaves the draft as it was. The daemon, not
the domain, decides when there is a slot; commands that need one are told (X08).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.domain import failure as failures
from aiosd.domain.content import MessageStatus
from aiosd.domain.draft import Draft
from aiosd.domain.errors import (
    ArgumentInvalid,
    NotResolvable,
    TaskStateInvalid,
)
from aiosd.domain.event import (
    AttemptChanged,
    Event,
    Resolved,
    ResultStored,
    StatusChanged,
    TaskFailed,
)
from aiosd.domain.failure import Failure, Outcome, RetryAdvice
from aiosd.domain.state import TaskState
from aiosd.domain.task import Acceptance, Attempt, Phase, StateChange, Task

if TYPE_CHECKING:
    from aiosd.domain.interruption import Interruption
    from aiosd.domain.task import TaskRequest


def submit(
    *, task_id: str, context_id: str, principal: str, request: TaskRequest, now: int
) -> Draft:
    """A new task, SUBMITTED and queued; its first event is number 1 (design.md 15)."""
    # The first revision and the first event are written out: creation is the hot path.
    task = Task(
        id=task_id,
        context_id=context_id,
        principal=principal,
        request=request,
        state=TaskState.SUBMITTED,
        state_time=now,
        create_time=now,
        update_time=now,
        phase=Phase.QUEUED,
        revision=1,
        event_head=1,
    )
    draft = Draft(task, now, revised=True)
    draft.events.append(Event(task_id, 1, now, StatusChanged(TaskState.SUBMITTED, None)))
    draft.history.append(StateChange(TaskState.SUBMITTED, now, sequence=1))
    if request.message is not None:
        draft.changed_messages[request.message.message_id] = request.message
    return draft


# --- attempts -----------------------------------------------------------------------------------


def start(draft: Draft, holder: str) -> int:
    """A session accepted the offer: the go-ahead may be written once this is stored.

    Returns the attempt number. SUBMITTED becomes WORKING; a later attempt stays WORKING (X06).
    """
    task = draft.task
    if task.phase is not Phase.QUEUED or task.terminal:
        raise TaskStateInvalid(task.state, "start")
    number = task.attempt.number + 1
    attempt = Attempt(number=number, holder=holder, checkpoint=task.attempt.checkpoint)
    if task.state is TaskState.SUBMITTED:
        draft.enter(TaskState.WORKING, "start", phase=Phase.RUNNING, attempt=attempt)
    else:
        draft.update(phase=Phase.RUNNING, attempt=attempt)
    if number > 1:  # the first start is told by WORKING itself (X06)
        draft.emit(AttemptChanged(number, "started"))
    return number


def requeue(draft: Draft, reason: str) -> None:
    """The go-ahead was certainly never written: the attempt did not happen (I14)."""
    attempt = draft.task.attempt
    draft.update(
        phase=Phase.QUEUED,
        attempt=replace(attempt, number=attempt.number - 1, holder="", reports=0),
    )
    draft.emit(AttemptChanged(attempt.number, "requeued", reason))


def lose(draft: Draft) -> None:
    """The holder is gone. Uncertain unless a repetition is declared safe (I16, I17)."""
    task = draft.task
    attempt = task.attempt
    options = task.options
    if task.terminal or not task.held:
        return
    draft.close_messages(MessageStatus.FAILED, "agent_lost")
    draft.emit(AttemptChanged(attempt.number, "lost", "agent_lost"))
    freed = replace(attempt, holder="", reports=0)
    if options.retry_safe and options.retry.attempts_left(attempt.number):
        if task.state is TaskState.WORKING:
            _again(draft, freed)
        else:
            draft.update(attempt=freed)  # paused or waiting: the next attempt begins on resume
        return
    # Uncertain even where a repetition would be safe: what the last attempt did is not known.
    lost = failures.agent_lost(task.request.capability_id, attempt.number)
    _end_failed(draft, lost, Outcome.UNCERTAIN, RetryAdvice.MANUAL_REVIEW)


def leave(draft: Draft) -> None:
    """The holder detached in order. What runs is lost; what stood still keeps its state (R057).

    Only the answer or the resume finds that nobody can go on with it, unless a repetition is safe.
    """
    task = draft.task
    if task.terminal or not task.held:
        return
    if task.state is TaskState.WORKING:
        lose(draft)
        return
    draft.close_messages(MessageStatus.FAILED, "agent_lost")
    draft.emit(AttemptChanged(task.attempt.number, "lost", "the provider left"))
    draft.update(attempt=replace(task.attempt, holder="", reports=0, abandoned=True))


def give_up_abandoned(draft: Draft) -> None:
    """End a task that was to go on with an abandoned attempt, unless it may begin again."""
    task = draft.task
    options = task.options
    again = options.retry_safe and options.retry.attempts_left(task.attempt.number)
    if task.attempt.abandoned and not again:
        lost = failures.agent_lost(task.request.capability_id, task.attempt.number)
        _end_failed(draft, lost, Outcome.UNCERTAIN, RetryAdvice.MANUAL_REVIEW)


def _again(draft: Draft, attempt: Attempt) -> None:
    """Another execution, after the retry delay if there is one; the state stays WORKING."""
    delay = draft.task.options.retry.delay_ms
    draft.update(
        attempt=attempt,
        phase=Phase.BACKING_OFF if delay else Phase.QUEUED,
        retry_time=draft.now + delay if delay else 0,
    )


def back_off_over(draft: Draft) -> None:
    """The retry delay has passed."""
    if draft.task.phase is Phase.BACKING_OFF:
        draft.update(phase=Phase.QUEUED, retry_time=0)


# --- ends ---------------------------------------------------------------------------------------


def complete(draft: Draft, result: str, *, direct_message: bool = False, why: str = "") -> None:
    """Success was reported; fails instead if an artifact is not sealed (Z35)."""
    task = draft.task
    if task.open_artifacts:
        _check_edge(task, TaskState.FAILED, "complete")
        incomplete = failures.artifact_incomplete(task.open_artifacts)
        _end_failed(draft, incomplete, Outcome.CERTAIN, RetryAdvice.NONE)
        return
    draft.enter(
        TaskState.COMPLETED,
        "complete",
        reason=why,
        result=result,
        result_reason=why,
        direct_message=direct_message,
        outcome=Outcome.CERTAIN,
        attempt=replace(task.attempt, holder=""),
        interruption=None,
    )
    summaries = tuple(artifact.summary for artifact in draft.artifacts.values())
    draft.emit(ResultStored(result, summaries))


def fail(draft: Draft, failure: Failure) -> None:
    """Failure was reported: another attempt if it may help and one is left (R099, R100).

    A provider that says so by the code of a rejection has declined (X43).
    """
    task = draft.task
    _check_edge(task, TaskState.FAILED, "fail")
    retry = failure.retryable and task.options.retry.attempts_left(task.attempt.number)
    if retry:
        draft.close_messages(MessageStatus.FAILED, "error")
        draft.emit(AttemptChanged(task.attempt.number, "failed", failure.message))
        _again(draft, replace(task.attempt, holder="", reports=0))
        return
    if failure.code == failures.REJECTED:
        reject(draft, failure.message)
        return
    advice = RetryAdvice.RESUBMIT if failure.retryable else RetryAdvice.NONE
    _end_failed(draft, failure, Outcome.CERTAIN, advice)


def fail_uncertain(draft: Draft, failure: Failure) -> None:
    """The provider itself says that it does not know what happened (Y15, agent_lost)."""
    _check_edge(draft.task, TaskState.FAILED, "fail")
    _end_failed(draft, failure, Outcome.UNCERTAIN, RetryAdvice.MANUAL_REVIEW)


def reject(draft: Draft, why: str) -> None:
    """Declined: before the start nothing happened; afterwards the provider vouches (X43)."""
    task = draft.task
    started = task.state is not TaskState.SUBMITTED
    draft.enter(
        TaskState.REJECTED,
        "reject",
        reason="rejected",
        failure=failures.rejected(why),
        outcome=Outcome.CERTAIN if started else Outcome.NOT_STARTED,
        advice=RetryAdvice.NONE,
        attempt=replace(task.attempt, holder=""),
    )
    _emit_failure(draft)


def refuse_dispatch(draft: Draft, failure: Failure) -> None:
    """It can never be dispatched: capability gone, permission denied (X03)."""
    _end_failed(draft, failure, Outcome.NOT_STARTED, RetryAdvice.NONE)


def decline(draft: Draft, wait: Interruption, by: str) -> None:
    """A person refused what it waits for: it fails and was never dispatched (R121)."""
    asked = wait.auth_request
    details: dict[str, object] = {"declined_by": by}
    if asked is not None:
        details |= {
            "permission": ",".join(asked.permissions),
            "permission_level": asked.permission_level,
            "scope": asked.permission_scope,
            "request_id": wait.interruption_id,
        }
    declined = failures.permission_denied("user_declined", details)
    _end_failed(draft, declined, _outcome_now(draft.task), RetryAdvice.NONE)


def cancel(draft: Draft, reason: str) -> None:
    """Ends the task durably; the executor is stopped afterwards (X10)."""
    task = draft.task
    draft.enter(
        TaskState.CANCELED,
        "cancel",
        reason=reason,
        outcome=_outcome_now(task),
        attempt=replace(task.attempt, holder=""),
        interruption=None,
    )


def time_out(draft: Draft) -> None:
    """Working time is used up (R095); uncertain if work was under way (Y06)."""
    task = draft.task
    elapsed = task.working_time(draft.now)
    late = failures.timed_out(task.request.capability_id, task.options.timeout_ms, elapsed)
    _end_timed(draft, late)


def pass_deadline(draft: Draft) -> None:
    """The wall-clock deadline passed, whatever the task was doing."""
    task = draft.task
    late = failures.deadline_passed(
        task.request.capability_id, task.options.deadline_ms, draft.now - task.create_time
    )
    _end_timed(draft, late)


def expire_wait(draft: Draft) -> None:
    """Nobody answered: two legal edges in one commit (X04, R050)."""
    task = draft.task
    wait = task.interruption
    if wait is None:
        return
    late = failures.wait_expired(
        wait.kind.waiting_for,
        task.request.capability_id,
        wait.timeout_ms,
        draft.now - wait.create_time,
    )
    _end_timed(draft, late, through="wait_expired")


def _end_timed(draft: Draft, late: Failure, *, through: str = "timeout") -> None:
    outcome = _outcome_now(draft.task)
    if outcome is Outcome.UNCERTAIN and draft.task.options.retry_safe:
        outcome = Outcome.CERTAIN  # as good as known: it may be done again (Y06)
    advice = RetryAdvice.MANUAL_REVIEW if outcome is Outcome.UNCERTAIN else RetryAdvice.RESUBMIT
    _end_failed(draft, late, outcome, advice, through=through)


def _outcome_now(task: Task) -> Outcome:
    """What is known if the task ends here without a report."""
    if task.held or task.attempt.abandoned:
        return Outcome.UNCERTAIN
    return Outcome.CERTAIN if task.attempt.number else Outcome.NOT_STARTED


def _end_failed(
    draft: Draft,
    failure: Failure,
    outcome: Outcome,
    advice: RetryAdvice,
    *,
    through: str = "",
) -> None:
    """FAILED with its companion; from an interrupted or paused state through WORKING (X04)."""
    if draft.task.state not in (TaskState.SUBMITTED, TaskState.WORKING):
        draft.enter(TaskState.WORKING, "fail", reason=through or failure.reason, interruption=None)
    draft.enter(
        TaskState.FAILED,
        "fail",
        reason=failure.reason,
        failure=failure,
        outcome=outcome,
        advice=advice,
        attempt=replace(draft.task.attempt, holder=""),
        interruption=None,
    )
    _emit_failure(draft)


def _emit_failure(draft: Draft) -> None:
    task = draft.task
    if task.failure is not None and task.outcome is not None and task.advice is not None:
        draft.emit(TaskFailed(task.failure, task.outcome, task.advice))


def _check_edge(task: Task, target: TaskState, attempted: str) -> None:
    if task.state is not TaskState.WORKING:
        raise TaskStateInvalid(task.state, attempted, f"a report of {target.word} needs working")


# --- after the end ------------------------------------------------------------------------------


def resolve(draft: Draft, outcome: str, evidence: str, by: str, retried_as: str = "") -> None:
    """A person closes an uncertain failure; the state stays, the certainty becomes certain."""
    task = draft.task
    if outcome not in ("completed", "failed", "retry"):
        raise ArgumentInvalid("outcome", "must be completed, failed or retry")
    if not 1 <= len(evidence) <= 4096:
        raise ArgumentInvalid("evidence", "must have 1..4096 characters")
    if task.outcome is not Outcome.UNCERTAIN or task.state is not TaskState.FAILED:
        raise NotResolvable(
            "only a failed task with an uncertain outcome can be resolved",
            {"state": task.state.word},
        )
    closed = Resolved(outcome, evidence, by, draft.now, retried_as)
    draft.update(resolution=closed, outcome=Outcome.CERTAIN, advice=RetryAdvice.NONE)
    draft.emit(closed)


def judge(draft: Draft, accepted: bool, reason: str, by: str) -> None:
    """The caller's judgement of a completed result; never reopens the task (R199)."""
    if draft.task.state is not TaskState.COMPLETED:
        raise TaskStateInvalid(draft.task.state, "accept")
    draft.update(acceptance=Acceptance(accepted, reason, by, draft.now))
