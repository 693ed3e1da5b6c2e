"""The task: what the daemon keeps durable. Rules about it are in lifecycle.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from aiosd.domain.content import Message, Progress
from aiosd.domain.event import Resolved
from aiosd.domain.failure import Failure, Outcome, RetryAdvice
from aiosd.domain.interruption import Interruption, PastAnswer
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.state import TERMINAL, TaskState


class Priority(IntEnum):
    """Strict: a higher one starts first (R089)."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    URGENT = 4


class Phase(IntEnum):
    """What goes on inside a state; never a wire state (Y18).

    OFFERED and ACCEPTED live in memory only: a crash there leaves the task QUEUED, nothing
    happened.
    """

    NONE = 0
    QUEUED = 1
    RUNNING = 4
    BACKING_OFF = 5
    RESUME_PENDING = 6


@dataclass(frozen=True, slots=True)
class Options:
    """How a task is to be run, defaults filled in; 0 means none."""

    priority: Priority = Priority.NORMAL
    timeout_ms: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    retry_safe: bool = False
    deadline_ms: int = 0
    synchronous: bool = False


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What was asked for; never changes, so it is stored once."""

    capability_id: str
    tool_id: str
    arguments: str = "{}"
    message: Message | None = None
    metadata: str = "{}"
    options: Options = field(default_factory=Options)
    pausable: bool = False
    estimated_duration_ms: int = 0
    reference_task_ids: tuple[str, ...] = ()
    retried_from: str = ""
    trace_parent: str = ""
    session_id: str = ""
    #: Names the credential that asked, so that it cannot approve what it asked for (R123).
    credential_id: str = ""


@dataclass(frozen=True, slots=True)
class StateChange:
    """One entry of the state history (R052); `metadata` is JSON object text."""

    state: TaskState
    time: int
    reason: str = ""
    metadata: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether the caller accepts a completed result (Z41)."""

    accepted: bool
    reason: str
    by: str
    at: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """The execution that a task is in or was in last.

    `number` counts executions from 1. `holder` is the session that owns it and proves every
    report; empty when nobody does. `reports` is the highest report number that is stored.
    `checkpoint` is what it saved last, JSON text.
    """

    number: int = 0
    holder: str = ""
    reports: int = 0
    checkpoint: str = ""
    #: Its provider left in order while it stood still: nobody can go on with it.
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of agent work.

    `open_artifacts` are those without their last chunk. `answers` are kept for repetitions of a
    question. `worked_ms` is the time in WORKING before `state_time`, so working time is derived
    and no clock runs.
    """

    id: str
    context_id: str
    principal: str
    request: TaskRequest
    state: TaskState
    state_time: int
    create_time: int
    update_time: int
    state_reason: str = ""
    phase: Phase = Phase.NONE
    attempt: Attempt = field(default_factory=Attempt)
    progress: Progress | None = None
    interruption: Interruption | None = None
    #: Answered by a credential that its provider has not yet been seen to use: if the process
    #: dies first, the credential is gone and must be asked for again.
    granted: Interruption | None = None
    #: What it needs was granted or approved: it is not asked for again.
    permitted: bool = False
    answers: tuple[PastAnswer, ...] = ()
    result: str | None = None
    result_reason: str = ""
    direct_message: bool = False
    failure: Failure | None = None
    outcome: Outcome | None = None
    advice: RetryAdvice | None = None
    resolution: Resolved | None = None
    acceptance: Acceptance | None = None
    revision: int = 0
    event_head: int = 0
    event_floor: int = 1
    start_time: int = 0
    end_time: int = 0
    worked_ms: int = 0
    retry_time: int = 0
    artifact_count: int = 0
    #: How often its webhooks were changed; 0: it never had one.
    webhook_revision: int = 0
    open_artifacts: tuple[str, ...] = ()
    #: Envelopes that still stream.
    open_messages: tuple[str, ...] = ()

    @property
    def terminal(self) -> bool:
        """No further transition is possible."""
        return self.state in TERMINAL

    @property
    def options(self) -> Options:
        """How it is to be run."""
        return self.request.options

    @property
    def held(self) -> bool:
        """Some session owns the current attempt."""
        return bool(self.attempt.holder)

    @property
    def resume_pending(self) -> bool:
        """Answered or resumed, waits for a slot (X08)."""
        return self.phase is Phase.RESUME_PENDING

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key of the queue: priority, then creation; ids are time-ordered (R089, R090)."""
        return (-self.options.priority, self.create_time, self.id)

    @property
    def deadline_time(self) -> int:
        """When the wall-clock deadline passes; 0 without one."""
        return self.create_time + self.options.deadline_ms if self.options.deadline_ms else 0

    def working_time(self, now: int) -> int:
        """Milliseconds in WORKING so far (X05)."""
        if self.state is TaskState.WORKING:
            return self.worked_ms + max(0, now - self.state_time)
        return self.worked_ms

    def due_time(self) -> int:
        """When the daemon must act by itself next; 0 when nothing is timed."""
        times = [self.deadline_time] if self.deadline_time else []
        if self.state is TaskState.WORKING:
            if self.options.timeout_ms:
                times.append(self.state_time + self.options.timeout_ms - self.worked_ms)
            if self.phase is Phase.BACKING_OFF:
                times.append(self.retry_time)
        waits = self.interruption is not None and not self.resume_pending
        if waits and self.interruption is not None and self.interruption.expire_time:
            times.append(self.interruption.expire_time)
        return 0 if self.terminal or not times else max(1, min(times))
