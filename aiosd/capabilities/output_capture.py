"""What a command writes, twice: whole lines as they come, and the text for the artifact."""

from __future__ import annotations

LINE_BYTES = 16 * 1024
CUT = b" [... cut]"
PART_BYTES = 256 * 1024


class OutputCapture:
    """Splits one stream into lines for the log and keeps its first bytes for the artifact.

    Memory is bounded: one line of at most 16 KiB and `limit` bytes of text.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        """Bytes seen."""
        self._limit = limit
        self._kept = bytearray()
        self._line = bytearray()
        self._cutting = False

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes; the lines that they finish, without line ends, long ones cut."""
        self.total += len(data)
        self._kept += data[: self._limit - len(self._kept)]
        lines: list[str] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._extend(piece, lines)
            if self._cutting:
                self._cutting = False
            else:
                lines.append(self._take())
        self._extend(rest, lines)
        return lines

    def finish(self) -> list[str]:
        """The last line, if it has no line end."""
        return [self._take()] if self._line else []

    def text_parts(self) -> list[str]:
        """The kept text in pieces that fit one part each, with a mark where it was cut."""
        text = self._kept.decode("utf-8", "replace")
        if self.total > len(self._kept):
            text += f"\n[... truncated: {self.total - len(self._kept)} more bytes]\n"
        # One replaced byte becomes three, so count characters at their longest.
        step = PART_BYTES // 4
        return [text[start : start + step] for start in range(0, len(text), step)]

    def _extend(self, piece: bytes, lines: list[str]) -> None:
        if self._cutting:
            return
        self._line += piece
        if len(self._line) > LINE_BYTES:
            del self._line[LINE_BYTES - len(CUT) :]
            self._line += CUT
            lines.append(self._take())
            self._cutting = True

    def _take(self) -> str:
        # Half a character at a cut, and bytes that are no text, must not make the line longer.
        text = self._line.decode("utf-8", "replace").replace("\N{REPLACEMENT CHARACTER}", "?")
        self._line.clear()
        return text.removesuffix("\r")
