"""Moments and durations between the daemon's contract and the text of this wire (X48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aiosd.aios_wire.errors import timestamp

if TYPE_CHECKING:
    from google.protobuf.message import Message


def to_text(moment: Timestamp) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return timestamp(to_ms(moment))


def to_ms(moment: Timestamp) -> int:
    """Milliseconds since the epoch."""
    return moment.seconds * 1000 + moment.nanos // 1_000_000


def from_ms(milliseconds: int) -> Timestamp:
    """A moment from milliseconds since the epoch."""
    seconds, rest = divmod(milliseconds, 1000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000_000)


def duration(milliseconds: int) -> Duration:
    """A duration of milliseconds, not negative."""
    seconds, rest = divmod(milliseconds, 1000)
    return Duration(seconds=seconds, nanos=rest * 1_000_000)


def duration_ms(span: Duration) -> int:
    """Milliseconds of a duration."""
    return span.seconds * 1000 + span.nanos // 1_000_000


def text_of(message: Message, field: str) -> str | None:
    """A moment of a message as text; None while it is unset."""
    return to_text(getattr(message, field)) if message.HasField(field) else None
