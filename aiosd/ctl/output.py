"""Where words go: data to stdout as a table, JSON or JSON lines; everything else to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

# C0 and C1 controls, and the marks that reorder text: nothing that came from elsewhere may steer
# a terminal (S-38).
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Format(StrEnum):
    """How data is written."""

    table = "table"
    json = "json"
    jsonl = "jsonl"


@dataclass(frozen=True, slots=True)
class Output:
    """Writes data in the format that was asked for."""

    format: Format = Format.table

    @property
    def for_people(self) -> bool:
        """True unless JSON was asked for."""
        return self.format is Format.table

    def line(self, text: str) -> None:
        """A line of data."""
        write(sys.stdout, f"{clean(text)}\n")

    def value(self, value: Any) -> None:
        """A JSON value: indented, or on one line as `jsonl`."""
        write(sys.stdout, to_json(value, indent=None if self.format is Format.jsonl else 2) + "\n")

    def rows(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], values: list[Any]
    ) -> None:
        """Many things: a table of `rows` for people, `values` as one array or as lines."""
        if self.format is Format.json:
            self.value(values)
        elif self.format is Format.jsonl:
            for value in values:
                self.value(value)
        else:
            self.table(columns, rows)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns that are as wide as they need to be; nothing is cut, so it can be piped."""
        lines = [list(columns), *([clean(cell).replace("\n", " ") for cell in row] for row in rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
        for number, line in enumerate(lines):
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            text = text.rstrip() + "\n"
            write(sys.stdout, bold(text) if number == 0 and colored(sys.stdout) else text)

    def note(self, text: str) -> None:
        """A line for a person that is no data."""
        write(sys.stderr, f"{clean(text)}\n")


def complain(text: str) -> None:
    """One line that says what went wrong."""
    one_line = " ".join(clean(text).split())
    write(sys.stderr, f"aiosctl: {one_line}\n")


def write(stream: TextIO, text: str) -> None:
    """Write now, so that both streams keep their order."""
    stream.write(text)
    stream.flush()


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON text that is safe to print: controls are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def clean(text: str) -> str:
    """Text without the characters that steer a terminal."""
    return CONTROLS.sub("", text.encode("utf-8", "replace").decode("utf-8"))


def colored(stream: TextIO) -> bool:
    """Whether a stream shows colours: a terminal, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str) -> str:
    """Text that stands out on a terminal."""
    return f"\x1b[1m{text.rstrip(chr(10))}\x1b[0m\n"


def progress_console() -> Console:
    """A rich console on stderr, for what moves."""
    from rich.console import Console

    return Console(stderr=True, no_color=not colored(sys.stderr), highlight=False, markup=False)
