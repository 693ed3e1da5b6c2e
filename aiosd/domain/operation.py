"""A runtime operation and what may become of it: a control command to an attached provider.

`EDGES` is the one table of its life (R162, Y10, Y11); what else is said about an operation (its
effect, whether anything can follow, how far it is projected) is derived from its status here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class OperationStatus(IntEnum):
    """Numbers are those of the contract."""

    QUEUED = 1
    RUNNING = 2
    RUNTIME_COMMITTED = 3
    PROJECTION_PENDING = 4
    PROJECTION_BLOCKED = 5
    SUCCEEDED = 6
    FAILED = 7
    CANCELLED = 8
    EXPIRED = 9
    OUTCOME_UNKNOWN = 10

    @property
    def word(self) -> str:
        """The lower-case name, as it stands on every wire."""
        return self.name.lower()


class EffectState(IntEnum):
    """What is known about the effect."""

    QUEUED = 1
    RUNNING = 2
    COMMITTED = 3
    FAILED = 4
    CANCELLED = 5
    EXPIRED = 6
    OUTCOME_UNKNOWN = 7


class ProjectionState(IntEnum):
    """How far the effect is visible in the daemon's instance registry."""

    NOT_APPLICABLE = 1
    PENDING = 2
    SYNCED = 3
    BLOCKED = 4


class RetryMode(StrEnum):
    """What a caller may do about an operation that did not succeed (Y04)."""

    NONE = "none"
    RESUME = "resume"
    RESUBMIT = "resubmit"


class EventType(StrEnum):
    """The facts of an operation's log; RESPONSE is always the last (wire.md 2.3)."""

    STARTED = "runtime_operation_started"
    PROGRESS = "runtime_operation_progress"
    EFFECT_COMMITTED = "runtime_effect_committed"
    PROJECTION_PENDING = "runtime_projection_pending"
    PROJECTION_SYNCED = "runtime_projection_synced"
    PROJECTION_BLOCKED = "runtime_projection_blocked"
    CANCEL_REQUESTED = "runtime_operation_cancel_requested"
    RESPONSE = "runtime_rpc_response"


_S = OperationStatus

#: From -> to -> why. Nothing leads from a committed effect to failed, cancelled or expired (R165).
EDGES: dict[OperationStatus, dict[OperationStatus, str]] = {
    _S.QUEUED: {
        _S.RUNNING: "given to the instance",
        _S.CANCELLED: "cancelled before it was given",
        _S.EXPIRED: "its time passed in the queue",
        _S.FAILED: "cannot be given to the instance",
    },
    _S.RUNNING: {
        _S.RUNTIME_COMMITTED: "the instance reported the effect",
        _S.FAILED: "the instance reported that there was no effect",
        _S.CANCELLED: "the instance stopped it before the effect",
        _S.EXPIRED: "its time passed and the instance proved that there was no effect",
        _S.OUTCOME_UNKNOWN: "nobody can prove whether the effect happened",
    },
    _S.RUNTIME_COMMITTED: {
        _S.PROJECTION_PENDING: "a new state was reported",
        _S.SUCCEEDED: "there is nothing to project",
    },
    _S.PROJECTION_PENDING: {
        _S.SUCCEEDED: "the state is projected",
        _S.PROJECTION_BLOCKED: "the state cannot be projected",
    },
    _S.PROJECTION_BLOCKED: {_S.PROJECTION_PENDING: "tried again or corrected"},
    _S.SUCCEEDED: {},
    _S.FAILED: {},
    _S.CANCELLED: {},
    _S.EXPIRED: {},
    _S.OUTCOME_UNKNOWN: {},
}

#: No way out. A blocked projection that an operator closed is terminal as well (Y10).
TERMINAL = frozenset(status for status, targets in EDGES.items() if not targets)

EFFECTS: dict[OperationStatus, EffectState] = {
    _S.QUEUED: EffectState.QUEUED,
    _S.RUNNING: EffectState.RUNNING,
    _S.RUNTIME_COMMITTED: EffectState.COMMITTED,
    _S.PROJECTION_PENDING: EffectState.COMMITTED,
    _S.PROJECTION_BLOCKED: EffectState.COMMITTED,
    _S.SUCCEEDED: EffectState.COMMITTED,
    _S.FAILED: EffectState.FAILED,
    _S.CANCELLED: EffectState.CANCELLED,
    _S.EXPIRED: EffectState.EXPIRED,
    _S.OUTCOME_UNKNOWN: EffectState.OUTCOME_UNKNOWN,
}

_PROJECTIONS: dict[OperationStatus, ProjectionState] = {
    _S.RUNTIME_COMMITTED: ProjectionState.PENDING,
    _S.PROJECTION_PENDING: ProjectionState.PENDING,
    _S.PROJECTION_BLOCKED: ProjectionState.BLOCKED,
    _S.SUCCEEDED: ProjectionState.SYNCED,
}


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """What was asked for; never changes, so it is stored once.

    `scope` is instance, agent or conversation; `expire_time` 0 means never; `params` is JSON
    object text.
    """

    instance_id: str
    scope: str
    target_id: str
    method: str
    params: str = "{}"
    principal: str = ""
    create_time: int = 0
    expire_time: int = 0
    trace_parent: str = ""


@dataclass(frozen=True, slots=True)
class OperationError:
    """Why it did not succeed; `code` is one of wire.md 2.3, `context` JSON object text."""

    code: str
    message: str
    retry_mode: RetryMode = RetryMode.NONE
    context: str = ""


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """How far it is; `sequence` is the event that told it, `total` 0 means unknown."""

    sequence: int
    phase: str
    current: int
    total: int


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Somebody asked for it to stop; a request, never a result (Y14)."""

    requested_by: str
    reason: str
    time: int


@dataclass(frozen=True, slots=True)
class Operation:
    """A runtime operation.

    `changes_state` is set once an effect was reported together with a new state of the instance,
    `reported_state` is that state while it is not projected. `holder` is the session that it was
    given to, `reports` the highest report number that is stored. `expiring`: its time passed while
    it ran and the instance was asked to stop. `closed`: an operator gave its projection up.
    """

    id: str
    request: OperationRequest
    status: OperationStatus
    update_time: int
    changes_state: bool = False
    closed: bool = False
    projection_revision: int = 0
    progress: OperationProgress | None = None
    cancel_request: CancelRequest | None = None
    result: str | None = None
    error: OperationError | None = None
    sequence: int = 0
    revision: int = 0
    end_time: int = 0
    holder: str = ""
    reports: int = 0
    expiring: bool = False
    reported_state: str = ""

    @property
    def terminal(self) -> bool:
        """Nothing can follow."""
        return self.closed or self.status in TERMINAL

    @property
    def effect(self) -> EffectState:
        """What is known about the effect (R169)."""
        return EFFECTS[self.status]

    @property
    def projection(self) -> ProjectionState:
        """NOT_APPLICABLE until an effect with a new state is reported."""
        if not self.changes_state:
            return ProjectionState.NOT_APPLICABLE
        return _PROJECTIONS[self.status]

    @property
    def committed(self) -> bool:
        """The effect happened, and that is never un-said."""
        return self.effect is EffectState.COMMITTED

    def due_time(self, grace_ms: int) -> int:
        """When the daemon must act by itself next; 0 when nothing is timed."""
        expire = self.request.expire_time
        if not expire or self.status not in (_S.QUEUED, _S.RUNNING):
            return 0
        return expire + grace_ms if self.expiring else expire


@dataclass(frozen=True, slots=True)
class OperationEvent:
    """One fact of an operation's own log, dense from 1, with the operation after it."""

    operation_id: str
    sequence: int
    time: int
    type: EventType
    snapshot: Operation


def diagram() -> str:
    """The life of an operation as Mermaid text, printed from the table."""
    lines = ["stateDiagram-v2", f"    [*] --> {_S.QUEUED.word}"]
    for status, targets in EDGES.items():
        lines += [f"    {status.word} --> {to.word}: {why}" for to, why in targets.items()]
        if status in TERMINAL:
            lines.append(f"    {status.word} --> [*]")
    lines.append(f"    {_S.PROJECTION_BLOCKED.word} --> [*]: closed by an operator")
    return "\n".join(lines) + "\n"
