"""What the daemon and a provider say to each other, as values (provider_service.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from aiosd.application.operation_messages import CancelOperation, OperationAck, RunOperation
from aiosd.domain.artifact import Chunk
from aiosd.domain.capability import Capability
from aiosd.domain.content import LogLine, Message, Option, Progress
from aiosd.domain.failure import Failure
from aiosd.domain.instance import Declaration
from aiosd.domain.interruption import AuthRequest, AuthResponse, PastAnswer
from aiosd.domain.task import Task

# --- from the provider ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldAttempt:
    """An attempt that a provider holds when it attaches again."""

    task_id: str
    attempt: int
    started: bool
    paused: bool
    waiting_action: str


@dataclass(frozen=True, slots=True)
class Hello:
    """Who attaches."""

    session_id: str
    name: str
    capabilities: tuple[Capability, ...]
    credits: int
    attempts: tuple[HeldAttempt, ...] = ()
    operations: tuple[str, ...] = ()
    instance: Declaration | None = None


@dataclass(frozen=True, slots=True)
class RequestInput:
    """A question; None timeout means the setting."""

    action: str
    prompt: str
    options: tuple[Option, ...] = ()
    schema: str = ""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RequestAuth:
    """An authorization needed; None timeout means the setting."""

    action: str
    request: AuthRequest
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """The attempt stands at a checkpoint."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The attempt goes on."""


@dataclass(frozen=True, slots=True)
class Canceled:
    """The attempt stopped after Cancel."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Success."""

    result: str
    direct_message: bool = False
    by_message: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """Declined after the start."""

    reason: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point to go on from."""

    state: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A report whose content breaks the rules of its form; it is refused and still counts."""

    problem: str


Said: TypeAlias = (
    Malformed
    | Progress
    | LogLine
    | Chunk
    | Message
    | RequestInput
    | RequestAuth
    | Paused
    | Resumed
    | Canceled
    | Completed
    | Failure
    | Rejected
    | Checkpoint
)


@dataclass(frozen=True, slots=True)
class Report:
    """What an attempt has to say; numbered per attempt from 1 without gaps."""

    task_id: str
    attempt: int
    number: int
    said: Said


# --- to the provider ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContinuedAttempt:
    """An attempt of Hello that goes on; reports up to `acknowledged` are stored."""

    task_id: str
    attempt: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """Answers Hello."""

    heartbeat_interval_ms: int
    lease_ms: int
    continued: tuple[ContinuedAttempt, ...]
    continued_operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatAck:
    """The daemon lives too."""

    number: int


@dataclass(frozen=True, slots=True)
class Offer:
    """An attempt on offer."""

    task: Task
    attempt: int
    checkpoint: str
    answers: tuple[PastAnswer, ...]


@dataclass(frozen=True, slots=True)
class OfferWithdrawn:
    """An offer is void."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Go:
    """An accepted attempt may begin."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Reports up to a number are stored."""

    task_id: str
    attempt: int
    up_to: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A report was refused and changed nothing."""

    task_id: str
    attempt: int
    number: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop at the next checkpoint."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop for good; `reason` is canceled, timeout or fenced."""

    task_id: str
    attempt: int
    reason: str
    grace_ms: int


@dataclass(frozen=True, slots=True)
class Input:
    """The answer to a question."""

    task_id: str
    attempt: int
    action: str
    input: str


@dataclass(frozen=True, slots=True)
class AuthGranted:
    """The answer to an authorization request."""

    task_id: str
    attempt: int
    action: str
    response: AuthResponse


@dataclass(frozen=True, slots=True)
class Drain:
    """The daemon is about to stop."""


ToProvider: TypeAlias = (
    Welcome
    | HeartbeatAck
    | Offer
    | OfferWithdrawn
    | Go
    | Ack
    | Refused
    | Pause
    | Resume
    | Cancel
    | Input
    | AuthGranted
    | Drain
    | RunOperation
    | CancelOperation
    | OperationAck
)


class ProviderLink(Protocol):
    """The daemon's end of one Attach stream."""

    def send(self, message: ToProvider) -> None:
        """Put a message on its way; never blocks, never fails (a dead stream is found by lease)."""
        ...

    def close(self, session_lost: bool) -> None:
        """End the stream: with SESSION_LOST, or because another stream took over."""
        ...
