"""Every fact that a task's log can hold. Numbers are dense per task (I27)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from aiosd.domain.artifact import Artifact
from aiosd.domain.content import LogLine, Message, Part, Progress
from aiosd.domain.failure import Failure, Outcome, RetryAdvice
from aiosd.domain.interruption import Interruption
from aiosd.domain.state import TaskState


class EventFamily(IntEnum):
    """What subscribers select by (X14)."""

    STATUS = 1
    PROGRESS = 2
    ARTIFACT = 3
    LOG = 4
    MESSAGE = 5


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The task entered a state; `previous` is None for its creation."""

    state: TaskState
    previous: TaskState | None
    reason: str = ""
    outcome: Outcome | None = None
    advice: RetryAdvice | None = None


@dataclass(frozen=True, slots=True)
class ArtifactChanged:
    """A chunk was accepted; its content stays in the store and is joined on demand."""

    artifact: Artifact
    position: int
    append: bool
    last: bool
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Companion of INPUT_REQUIRED."""

    interruption: Interruption


@dataclass(frozen=True, slots=True)
class AuthRequired:
    """Companion of AUTH_REQUIRED."""

    interruption: Interruption


@dataclass(frozen=True, slots=True)
class ResultStored:
    """Companion of COMPLETED."""

    result: str
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """Companion of FAILED and REJECTED."""

    failure: Failure
    outcome: Outcome
    advice: RetryAdvice


@dataclass(frozen=True, slots=True)
class MessageChanged:
    """A message envelope was added or continued."""

    message: Message


@dataclass(frozen=True, slots=True)
class AttemptChanged:
    """`change` is started, lost, failed or requeued."""

    attempt: int
    change: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A person closed an uncertain failure; the state stays as it is."""

    outcome: str
    evidence: str
    by: str
    at: int
    retried_as: str = ""


Payload: TypeAlias = (
    StatusChanged
    | Progress
    | LogLine
    | ArtifactChanged
    | InputRequired
    | AuthRequired
    | ResultStored
    | TaskFailed
    | MessageChanged
    | AttemptChanged
    | Resolved
)

_FAMILIES: dict[type[Payload], EventFamily] = {
    StatusChanged: EventFamily.STATUS,
    InputRequired: EventFamily.STATUS,
    AuthRequired: EventFamily.STATUS,
    ResultStored: EventFamily.STATUS,
    TaskFailed: EventFamily.STATUS,
    Resolved: EventFamily.STATUS,
    Progress: EventFamily.PROGRESS,
    ArtifactChanged: EventFamily.ARTIFACT,
    LogLine: EventFamily.LOG,
    AttemptChanged: EventFamily.LOG,
    MessageChanged: EventFamily.MESSAGE,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One fact: the same on every wire, in every replay and in every webhook."""

    task_id: str
    sequence: int
    time: int
    payload: Payload

    @property
    def family(self) -> EventFamily:
        """The family that selects it."""
        return _FAMILIES[type(self.payload)]
