"""Messages and parts: what goes into a task and what is said about it (Z18-Z23, R159)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from aiosd.domain.errors import ArgumentInvalid


class PartKind(IntEnum):
    """Which content member is present; presence decides, not truthiness."""

    TEXT = 1
    RAW = 2
    URL = 3
    DATA = 4


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of content; exactly one content member (R186).

    `content` is text, a URL or JSON text; `raw` holds the bytes of a RAW part.
    """

    kind: PartKind
    content: str = ""
    raw: bytes = b""
    metadata: str = ""
    filename: str = ""
    media_type: str = ""

    @property
    def size(self) -> int:
        """Bytes of content, as counted against limits."""
        return len(self.raw) if self.kind is PartKind.RAW else len(self.content.encode())


class Role(IntEnum):
    """Who wrote a message."""

    USER = 1
    AGENT = 2


class MessageStatus(IntEnum):
    """STREAMING is the only state that can change (R159)."""

    STREAMING = 1
    COMPLETED = 2
    FAILED = 3
    REFUSED = 4
    CANCELLED = 5


STOP_REASONS = frozenset(
    {
        "end_turn",
        "max_tokens",
        "tool_use",
        "user_stop",
        "timeout",
        "error",
        "refused",
        "content_filter",
        "agent_lost",
    }
)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of talk; its id is its author's choice and unique inside the task."""

    message_id: str
    role: Role
    parts: tuple[Part, ...] = ()
    status: MessageStatus = MessageStatus.COMPLETED
    stop_reason: str = ""
    in_reply_to: str = ""
    metadata: str = ""
    extensions: tuple[str, ...] = ()
    reference_task_ids: tuple[str, ...] = ()
    create_time: int = 0
    update_time: int = 0

    def followed_by(self, newer: Message) -> Message:
        """This envelope after its author's next word; a terminal one is immutable (R159)."""
        if self.status is not MessageStatus.STREAMING:
            raise ArgumentInvalid("message", f"{self.message_id} is terminal and cannot change")
        if newer.role is not self.role:
            raise ArgumentInvalid("message.role", "the author of a message cannot change")
        return replace(newer, create_time=self.create_time)


@dataclass(frozen=True, slots=True)
class Option:
    """One answer on offer; `value` is JSON text that may stand for the id (X50)."""

    id: str
    label: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task has come (R020)."""

    percent: float
    message: str = ""
    current_step: int | None = None
    total_steps: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.percent <= 100:  # also refuses NaN
            raise ArgumentInvalid("progress.percent", "must be between 0 and 100")
        if self.current_step is not None and self.current_step < 0:
            raise ArgumentInvalid("progress.current_step", "must not be negative")
        if self.total_steps is not None and self.total_steps < 0:
            raise ArgumentInvalid("progress.total_steps", "must not be negative")


class LogLevel(IntEnum):
    """Severity of a log line."""

    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4
    FATAL = 5


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that the provider logged."""

    level: LogLevel
    message: str = field(default="")
