"""The SHA-256 of every file below a directory, in small steps that can be stopped between.

Plain blocking code, to be called from a worker thread: `DirectoryDigest.advance` does at most
about 1 MiB or 50 ms of work at a time, so whoever drives it can pause, cancel and report.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Note = Callable[[str, OSError], None]

CHUNK_BYTES = 1024 * 1024
STEP_S = 0.05
MAX_ERRORS = 100
ERROR_BYTES = 300


@dataclass(slots=True)
class Totals:
    """What a directory holds: regular files that can be seen, and their bytes."""

    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Position:
    """How far a digest has come; plain values, so that it can be stored and taken up again.

    `after` is the path of the last finished file, relative and with forward slashes; None before
    the first. `chain` is the combined digest so far: it begins as the SHA-256 of nothing, and each
    file makes it the SHA-256 of its 64 hex digits followed by the file's line of the listing.
    """

    after: str | None = None
    files: int = 0
    bytes: int = 0
    errors: int = 0
    chain: str = hashlib.sha256().hexdigest()
    problems: list[str] = field(default_factory=list)
    """The first 100 errors, one line each, at most 300 bytes long."""

    def to_json(self) -> dict[str, Any]:
        """The position as JSON that any name fits in, at most about 45 KiB."""
        after = None if self.after is None else quote_from_bytes(os.fsencode(self.after))
        return {**asdict(self), "after": after}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Position:
        """The position that `to_json` wrote."""
        after = stored["after"]
        return cls(
            **{**stored, "after": None if after is None else os.fsdecode(unquote_to_bytes(after))}
        )


class DirectoryDigest:
    """Digests the files below `root` one after the other, in an order that never changes.

    Directories are read in the order of their names as bytes. What is not a regular file is passed
    over, symbolic links too unless `follow_symlinks`; what cannot be read is an error in the
    position and does not end the walk.
    """

    def __init__(self, root: Path, position: Position, *, follow_symlinks: bool = False) -> None:
        self.position = position
        self._root = root
        self._follow = follow_symlinks
        self._lines: list[str] = []
        self._files = self._remaining()
        self._open: IO[bytes] | None = None
        self._path = ""
        self._hash = hashlib.sha256()

    def advance(self) -> bool:
        """Do the next piece of work; False when everything is done."""
        end = time.monotonic() + STEP_S
        budget = CHUNK_BYTES
        while budget > 0 and time.monotonic() < end:
            if self._open is None and not self._begin_next():
                return False
            budget -= self._read(budget)
        return True

    def take_lines(self) -> list[str]:
        """Lines of the listing since the last call: digest, two spaces, path, line end."""
        lines, self._lines = self._lines, []
        return lines

    @property
    def current(self) -> str:
        """The file being read; empty between two files."""
        return self._path

    @property
    def bytes_done(self) -> int:
        """Bytes of the finished files and of the one being read."""
        return self.position.bytes + (0 if self._open is None else self._open.tell())

    def close(self) -> None:
        """Let go of the file being read."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self._path = ""

    def _remaining(self) -> Iterator[str]:
        """Paths still to do: those after the position, in the order of the walk."""
        after = None if self.position.after is None else _order(self.position.after)
        for path in walk(self._root, self._note, follow_symlinks=self._follow):
            if after is None or _order(path) > after:
                yield path

    def _begin_next(self) -> bool:
        for path in self._files:
            try:
                self._open = _open_regular(self._root / path, follow_symlinks=self._follow)
            except OSError as problem:
                self._note(path, problem)
                continue
            if self._open is not None:
                self._path = path
                self._hash = hashlib.sha256()
                return True
        return False

    def _read(self, budget: int) -> int:
        """Read a piece of the open file; finish the file at its end. Returns what it cost."""
        if self._open is None:
            return 0
        try:
            data = self._open.read(min(budget, CHUNK_BYTES))
        except OSError as problem:
            self._note(self._path, problem)
            self.close()
            return 1
        self._hash.update(data)
        if not data:
            self._finish()
        return len(data) or 1

    def _finish(self) -> None:
        position = self.position
        line = f"{self._hash.hexdigest()}  {printable(self._path)}\n"
        position.chain = hashlib.sha256(f"{position.chain}{line}".encode()).hexdigest()
        position.after = self._path
        position.files += 1
        position.bytes = self.bytes_done
        self._lines.append(line)
        self.close()

    def _note(self, path: str, problem: OSError) -> None:
        after = self.position.after
        if after is not None and _order(path) <= _order(after):
            return  # counted by the attempt that got this far
        self.position.errors += 1
        if len(self.position.problems) < MAX_ERRORS:
            text = f"{printable(path)}: {problem.strerror or problem}"
            self.position.problems.append(text.encode()[:ERROR_BYTES].decode(errors="ignore"))
        if path != ".":
            self.position.after = path


def measure(root: Path, totals: Totals, *, follow_symlinks: bool = False) -> Iterator[None]:
    """Count into `totals`, yielding after each file, so that it can be stopped between."""
    for path in walk(root, lambda path, problem: None, follow_symlinks=follow_symlinks):
        with contextlib.suppress(OSError):
            totals.bytes += (root / path).stat().st_size
            totals.files += 1
        yield


def walk(root: Path, note: Note, *, follow_symlinks: bool = False) -> Iterator[str]:
    """Paths of the regular files below `root`, relative to it, in the order of `_order`.

    `note(path, problem)` is told of each directory that cannot be read. A directory that contains
    itself through links is entered once.
    """
    above = frozenset({_identity(root)})
    # A list of open directories, not recursion: paths may be deeper than Python's stack.
    waiting = [(_entries(root, "", note), "", above)]
    while waiting:
        entries, below, above = waiting[-1]
        entry = next(entries, None)
        if entry is None:
            waiting.pop()
            continue
        path = below + entry.name
        try:
            if entry.is_file(follow_symlinks=follow_symlinks):
                yield path
            elif entry.is_dir(follow_symlinks=follow_symlinks):
                identity = _identity(Path(entry.path))
                if identity not in above:
                    waiting.append((_entries(root, path, note), f"{path}/", above | {identity}))
            elif follow_symlinks and entry.is_symlink() and not Path(entry.path).exists():
                note(path, FileNotFoundError(errno.ENOENT, "the link leads nowhere"))
        except OSError as problem:
            note(path, problem)


def _entries(root: Path, below: str, note: Note) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(root / below) as entries:
            return iter(sorted(entries, key=lambda entry: os.fsencode(entry.name)))
    except OSError as problem:
        note(below or ".", problem)
        return iter(())


def printable(path: str) -> str:
    """A path as text: bytes that are no UTF-8, and line ends, are written as escapes."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _order(path: str) -> list[bytes]:
    """Where the walk comes to a path: each directory's names are sorted as bytes."""
    return [os.fsencode(name) for name in path.split("/")]


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _open_regular(path: Path, *, follow_symlinks: bool) -> IO[bytes] | None:
    """Open a file; None if it is no regular file any more, a pipe that would block for example."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags if follow_symlinks else flags | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb", buffering=0)  # noqa: PTH123 (a descriptor, not a path)
