"""Server-sent events: the writer, and the event ids that a reader resumes from.

One frame is `id`, `event` and one line of `data`. Ids and names are from a fixed alphabet and data
is JSON on one line, so that nothing in a payload can end a frame or begin another (H19). The
characters at which careless readers break lines are escaped too, although the format knows only
CR and LF: inside JSON the escape means the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment that readers skip. Writing it also finds out whether anybody still listens (E21)."""
KEEP_ALIVE_SECONDS: Final = 15

_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EVENT_ID: Final = re.compile(r"evt-([0-9]{1,15})")
_LINE_BREAKS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class MalformedEventIdError(ValueError):
    """An event id that this service never wrote."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event.

    `data` is JSON text on one line. Without `event` a reader sees the type "message"; without
    `id` the reader's last event id stays as it was.
    """

    data: str
    event: str | None = None
    id: str | None = None


def encode(frames: Iterable[Frame]) -> bytes:
    """Write frames as one chunk, so that a reader who is behind gets many with one write.

    Raises ValueError on an id or a name outside the alphabet and on data of more than one line.
    """
    lines: list[str] = []
    for frame in frames:
        if frame.id is not None:
            if not _ID.fullmatch(frame.id):
                raise ValueError("an event id is 1..128 characters of A-Z a-z 0-9 _ . : -")
            lines.append(f"id: {frame.id}\n")
        if frame.event is not None:
            if not _NAME.fullmatch(frame.event):
                raise ValueError("an event name is 1..64 characters of A-Z a-z 0-9 _ . -")
            lines.append(f"event: {frame.event}\n")
        if "\n" in frame.data or "\r" in frame.data:
            raise ValueError("event data is JSON on one line")
        data = frame.data if frame.data.isascii() else frame.data.translate(_LINE_BREAKS)
        lines.append(f"data: {data}\n\n")
    return "".join(lines).encode()


def retry(milliseconds: int) -> bytes:
    """Tell readers how long to wait before they connect again."""
    if milliseconds < 0:
        raise ValueError("a reconnection time is not negative")
    return f"retry: {milliseconds}\n\n".encode()


def format_event_id(number: int) -> str:
    """Spell the number of an event, counted from 1 within its task: `evt-001`, `evt-1000`."""
    if number < 1:
        raise ValueError("events are counted from 1")
    return f"evt-{number:03d}"


def parse_event_id(text: str) -> int:
    """Read an event id back; ids compare as numbers, so leading zeros carry no meaning.

    `evt-000` stands before the first event. Raises `MalformedEventIdError` on any other spelling
    (R078).
    """
    match = _EVENT_ID.fullmatch(text)
    if match is None:
        raise MalformedEventIdError("an event id looks like evt-001")
    return int(match.group(1))
