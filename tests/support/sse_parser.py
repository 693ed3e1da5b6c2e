"""A parser of event streams, written from the HTML standard (9.2.5 and 9.2.6) word by word.

It shares nothing with the writer under test, takes bytes in any chunks, and breaks lines at CR LF,
LF and CR only.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event; `last_event_id` is the stream's id at that moment."""

    type: str
    data: str
    last_event_id: str


@dataclass(slots=True)
class SseParser:
    """Feed it bytes, take events. `reconnection_ms` is what the stream last asked for."""

    last_event_id: str = ""
    reconnection_ms: int | None = None
    comments: list[str] = field(default_factory=list)
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _at_start: bool = True
    _after_cr: bool = False
    _line: list[str] = field(default_factory=list)
    _data: list[str] = field(default_factory=list)
    _type: str = ""
    _id: str = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that they complete."""
        events: list[ServerSentEvent] = []
        for character in self._decoder.decode(chunk):
            if self._at_start:
                self._at_start = False
                if character == "\ufeff":
                    continue
            if character == "\n" and self._after_cr:
                self._after_cr = False
                continue
            self._after_cr = character == "\r"
            if character in "\r\n":
                event = self._end_of_line()
                if event is not None:
                    events.append(event)
            else:
                self._line.append(character)
        return events

    def _end_of_line(self) -> ServerSentEvent | None:
        line = "".join(self._line)
        self._line.clear()
        if not line:
            return self._dispatch()
        if line.startswith(":"):
            self.comments.append(line[1:])
            return None
        name, colon, value = line.partition(":")
        if colon and value.startswith(" "):
            value = value[1:]
        self._process(name, value)
        return None

    def _process(self, name: str, value: str) -> None:
        if name == "event":
            self._type = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\x00" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.reconnection_ms = int(value)

    def _dispatch(self) -> ServerSentEvent | None:
        self.last_event_id = self._id
        data, self._data = self._data, []
        event_type, self._type = self._type, ""
        if not data:
            return None
        return ServerSentEvent(event_type or "message", "\n".join(data), self.last_event_id)


def parse_stream(stream: bytes) -> list[ServerSentEvent]:
    """Parse a whole stream; an event without its blank line is discarded, as the standard says."""
    return SseParser().feed(stream)
