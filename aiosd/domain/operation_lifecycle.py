"""Commands: what may be done to a runtime operation. Each checks first and changes after.

Commands of the daemon itself (expire, lose, project) do nothing where they do not apply, because
they race with reports; commands of callers refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from aiosd.domain.errors import Refusal
from aiosd.domain.operation import (
    EDGES,
    TERMINAL,
    CancelRequest,
    EventType,
    Operation,
    OperationError,
    OperationEvent,
    OperationProgress,
    OperationRequest,
    OperationStatus,
    RetryMode,
)

_S = OperationStatus


class OperationNotCancellable(Refusal):
    """The effect is committed, or the operation has ended (R170, Y14)."""

    reason = "OPERATION_NOT_CANCELLABLE"


class OperationNotBlocked(Refusal):
    """Only a blocked projection can be closed, and only once."""

    reason = "OPERATION_NOT_BLOCKED"


@dataclass(slots=True)
class OperationDraft:
    """A change to one operation in the making; several commands become one commit."""

    operation: Operation
    now: int
    events: list[OperationEvent] = field(default_factory=list)
    revised: bool = False

    def update(self, **members: Any) -> None:
        """Replace members; the first change of a draft makes a new revision."""
        if not self.revised:
            self.revised = True
            members["revision"] = self.operation.revision + 1
        self.operation = replace(self.operation, update_time=self.now, **members)

    def emit(self, kind: EventType) -> None:
        """Append a fact; its snapshot leaves out what only the daemon needs."""
        self.update(sequence=self.operation.sequence + 1)
        after = replace(self.operation, reported_state="")
        self.events.append(OperationEvent(after.id, after.sequence, self.now, kind, after))

    def enter(self, status: OperationStatus, **members: Any) -> None:
        """Take an edge of the table; ValueError for one that is not there, which is our fault."""
        before = self.operation
        if before.closed or status not in EDGES[before.status]:
            raise ValueError(f"no edge from {before.status.word} to {status.word}")
        if status in TERMINAL:
            members["end_time"] = self.now
        self.update(status=status, **members)

    def end(self, status: OperationStatus, **members: Any) -> None:
        """Take an edge to the end and say so."""
        self.enter(status, **members)
        self.emit(EventType.RESPONSE)


def submit(operation_id: str, request: OperationRequest) -> OperationDraft:
    """A new operation, QUEUED; its log is empty until something happens to it."""
    now = request.create_time
    draft = OperationDraft(Operation(operation_id, request, _S.QUEUED, now), now)
    draft.update()
    return draft


def start(draft: OperationDraft, holder: str) -> bool:
    """It is about to be given to a session; once this is stored the effect may happen.

    False if it is not queued any more and is not this session's already.
    """
    operation = draft.operation
    if operation.status is _S.RUNNING:
        return operation.holder == holder and not operation.reports
    if operation.status is not _S.QUEUED:
        return False
    draft.enter(_S.RUNNING, holder=holder)
    draft.emit(EventType.STARTED)
    return True


def refuse_dispatch(draft: OperationDraft, code: str, message: str) -> None:
    """It can never be given to its instance: nothing happened."""
    if draft.operation.status is _S.QUEUED:
        draft.end(_S.FAILED, error=OperationError(code, message))


# --- what the instance reports --------------------------------------------------------------------


def acknowledge(draft: OperationDraft, number: int) -> None:
    """Remember the highest report number, so that a repetition is a no-op."""
    draft.update(reports=number)


def progress(draft: OperationDraft, phase: str, current: int, total: int) -> None:
    """How far it is."""
    if draft.operation.status is not _S.QUEUED and not draft.operation.terminal:
        sequence = draft.operation.sequence + 1
        draft.update(progress=OperationProgress(sequence, phase, current, total))
        draft.emit(EventType.PROGRESS)


def commit(draft: OperationDraft, state: str, result: str | None) -> None:
    """The effect happened; `state` is the whole new state of the instance, empty: unchanged.

    Reported again while the projection is pending or blocked, it corrects the state.
    """
    status = draft.operation.status
    if draft.operation.terminal or status is _S.QUEUED:
        return
    if status is _S.RUNNING:
        draft.enter(_S.RUNTIME_COMMITTED, result=result, changes_state=bool(state))
        draft.emit(EventType.EFFECT_COMMITTED)
        if not state:
            draft.end(_S.SUCCEEDED)
            return
    elif result is not None:
        draft.update(result=result)
    if status is _S.PROJECTION_PENDING:
        draft.update(reported_state=state)
    else:
        _pend(draft, state)


def fail(draft: OperationDraft, code: str, message: str) -> None:
    """The instance says that the effect did not and will not happen."""
    if draft.operation.status is _S.RUNNING:
        error = OperationError(code or "RUNTIME_EXECUTION_FAILED", message or "Operation failed")
        draft.end(_S.FAILED, error=error)


def stopped(draft: OperationDraft) -> None:
    """The instance stopped it before the effect, because of a cancel request or of its time."""
    operation = draft.operation
    if operation.status is not _S.RUNNING:
        return
    if operation.expiring and operation.cancel_request is None:
        draft.end(_S.EXPIRED, error=_expired("stopped before its effect"))
    else:
        draft.end(_S.CANCELLED, error=_cancelled())


# --- projection -----------------------------------------------------------------------------------


def synced(draft: OperationDraft, revision: int) -> None:
    """The instance's state that holds the effect is in the registry at this revision."""
    if draft.operation.status is _S.PROJECTION_BLOCKED and not draft.operation.closed:
        _pend(draft, draft.operation.reported_state)
    if draft.operation.status is _S.PROJECTION_PENDING:
        draft.enter(_S.SUCCEEDED, projection_revision=revision, reported_state="", error=None)
        draft.emit(EventType.PROJECTION_SYNCED)
        draft.emit(EventType.RESPONSE)


def block(draft: OperationDraft, problem: str) -> None:
    """The reported state cannot be projected; the effect is never un-said (R164, R165)."""
    if draft.operation.status is _S.PROJECTION_PENDING:
        error = OperationError("PROJECTION_BLOCKED", problem, RetryMode.RESUME)
        draft.enter(_S.PROJECTION_BLOCKED, error=error)
        draft.emit(EventType.PROJECTION_BLOCKED)


def close(draft: OperationDraft) -> None:
    """An operator gives a blocked projection up; the effect stays committed (Y10)."""
    operation = draft.operation
    if operation.closed or operation.status is not _S.PROJECTION_BLOCKED:
        raise OperationNotBlocked(
            f"only a blocked projection can be closed; the operation is {operation.status.word}",
            {"status": operation.status.word},
        )
    message = operation.error.message if operation.error is not None else "closed"
    error = OperationError("PROJECTION_BLOCKED", message)
    draft.update(closed=True, end_time=draft.now, reported_state="", error=error)
    draft.emit(EventType.RESPONSE)


# --- ends without an effect, or without a word ----------------------------------------------------


def cancel(draft: OperationDraft, by: str, reason: str) -> None:
    """Ask for it to stop: at once while queued, by its instance while it runs; else refused."""
    operation = draft.operation
    if operation.status not in (_S.QUEUED, _S.RUNNING):
        raise OperationNotCancellable(
            f"the operation is {operation.status.word}",
            {"operation_id": operation.id, "status": operation.status.word},
        )
    if operation.cancel_request is None:
        draft.update(cancel_request=CancelRequest(by, reason, draft.now))
        draft.emit(EventType.CANCEL_REQUESTED)
    if operation.status is _S.QUEUED:
        draft.end(_S.CANCELLED, error=_cancelled())


def pass_time(draft: OperationDraft, grace_ms: int) -> None:
    """Its time passed: queued it is expired; running it is asked to stop, then nobody knows."""
    operation = draft.operation
    due = operation.due_time(grace_ms)
    if not due or draft.now < due:
        return
    if operation.status is _S.QUEUED:
        draft.end(_S.EXPIRED, error=_expired("not given to the instance"))
    elif not operation.expiring:
        draft.update(expiring=True)
    else:
        _end_unknown(draft, "its time passed and the instance did not say what happened")


def lose(draft: OperationDraft, *, given: bool = True) -> None:
    """Its session is gone. Unless it certainly never left, nobody can know (R167, Y12)."""
    if draft.operation.status is not _S.RUNNING:
        return
    if given:
        _end_unknown(draft, "the instance was lost while the operation ran")
    else:
        message = "the instance was lost before it was told of the operation"
        error = OperationError("INSTANCE_OFFLINE", message, RetryMode.RESUBMIT)
        draft.end(_S.FAILED, error=error)


def _pend(draft: OperationDraft, state: str) -> None:
    draft.enter(_S.PROJECTION_PENDING, reported_state=state, changes_state=True, error=None)
    draft.emit(EventType.PROJECTION_PENDING)


def _end_unknown(draft: OperationDraft, message: str) -> None:
    draft.end(_S.OUTCOME_UNKNOWN, error=OperationError("OUTCOME_UNKNOWN", message))


def _expired(message: str) -> OperationError:
    return OperationError("COMMAND_EXPIRED", message, RetryMode.RESUBMIT)


def _cancelled() -> OperationError:
    return OperationError("OPERATION_CANCELLED", "cancelled before its effect")
