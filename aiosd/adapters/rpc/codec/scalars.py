"""Times, spans and enums."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aiosd.domain.errors import ArgumentInvalid

if TYPE_CHECKING:
    from enum import IntEnum

    E = TypeVar("E", bound=IntEnum)

DAY_MS = 86_400_000


def timestamp(ms: int) -> Timestamp | None:
    """A Timestamp; None (unset) for 0."""
    if not ms:
        return None
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def milliseconds(stamp: Timestamp) -> int:
    """Milliseconds since the epoch of a Timestamp that is set."""
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def duration(ms: int) -> Duration | None:
    """A Duration; None (unset) for 0."""
    if not ms:
        return None
    return Duration(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def span(value: Duration, field: str, *, least: int = 0, most: int = 365 * DAY_MS) -> int:
    """Milliseconds of a Duration inside bounds; raises ArgumentInvalid that names the field.

    A positive span below one millisecond counts as one, so that it never turns into "none".
    """
    nanos = value.seconds * 1_000_000_000 + value.nanos
    ms = -(-nanos // 1_000_000)
    if not least <= ms <= most:
        raise ArgumentInvalid(field, f"must be between {least} and {most} ms")
    return ms


def member(kind: type[E], number: int, field: str) -> E:
    """The enum member of a number; raises ArgumentInvalid for UNSPECIFIED and unknown ones."""
    try:
        return kind(number)
    except ValueError:
        raise ArgumentInvalid(field, f"{number} is not a value that can be sent") from None
