"""`system.files.digest`: the SHA-256 of every file below a directory."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiosd.capabilities.directory_digest import (
    STEP_S,
    DirectoryDigest,
    Position,
    Totals,
    measure,
    printable,
)
from aiosd.sdk import Data, TaskFailed, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiosd.sdk import Provider, TaskContext

CAPABILITY_ID = "system.files.digest"
TOOL_ID = "system.files"
LISTING = "digests"
PROGRESS_S = 0.1
SAVE_S = 2.0
# A chunk of the listing; well below the megabyte that a text part may have.
LISTING_BYTES = 256 * 1024
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
INVALID_ARGUMENT = -32602

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["path"],
    "additionalProperties": False,
    "properties": {
        "path": {
            "type": "string",
            "pattern": "^/[^\\u0000]*$",
            "description": "absolute path of the directory",
        },
        "follow_symlinks": {"type": "boolean", "default": False},
    },
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["files", "bytes", "sha256", "errors"],
    "properties": {
        "files": {"type": "integer", "minimum": 0},
        "bytes": {"type": "integer", "minimum": 0},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "errors": {"type": "integer", "minimum": 0},
    },
}


@dataclass(frozen=True, slots=True)
class Arguments:
    """What to digest."""

    path: str
    follow_symlinks: bool = False


def register(provider: Provider) -> None:
    """Offer the capability."""
    provider.capability(
        CAPABILITY_ID,
        name="Digest files",
        description="Computes the SHA-256 of every regular file below a directory.",
        level="low",
        tool_id=TOOL_ID,
        pausable=True,
        retry_safe=True,
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
        tags=("system", "files"),
    )(run)


async def run(task: TaskContext, arguments: Arguments) -> dict[str, Any]:
    """Digest the directory; goes on from its last checkpoint in a later attempt.

    Two artifacts: `digests`, a listing as sha256sum writes it, and `report`. After a lost attempt
    the listing may name files twice that were finished just before the loss. Fails with reason
    `argument_invalid`, naming `path`, if that is no directory that can be read.
    """
    root = checked(arguments.path)
    saved: dict[str, Any] = task.checkpoint_state or {}
    run = _Run(
        task,
        DirectoryDigest(
            root,
            Position.from_json(saved["position"]) if saved else Position(),
            follow_symlinks=arguments.follow_symlinks,
        ),
        listing_begun=saved.get("listing_begun", False),
    )
    try:
        await run.measure(root, follow_symlinks=arguments.follow_symlinks)
        await run.digest()
    finally:
        run.walk.close()
    position = run.walk.position
    result = {
        "files": position.files,
        "bytes": position.bytes,
        "sha256": position.chain,
        "errors": position.errors,
    }
    details = result | {"path": printable(arguments.path), "problems": position.problems}
    await task.artifact(
        "report", Text(markdown(details)), Data(details), type="report", mime_type="text/markdown"
    )
    return result


class _Run:
    """One attempt: drives the walk, tells how far it is, and saves where it stands."""

    def __init__(self, task: TaskContext, walk: DirectoryDigest, *, listing_begun: bool) -> None:
        self.walk = walk
        self._task = task
        self._totals = Totals()
        self._listing_begun = listing_begun
        self._pending: list[str] = []
        self._told = float("-inf")
        self._saved = time.monotonic()

    async def measure(self, root: Path, *, follow_symlinks: bool) -> None:
        """Count what there is, so that progress can be a share of it."""
        counting = measure(root, self._totals, follow_symlinks=follow_symlinks)
        while await asyncio.to_thread(_for_a_while, counting):
            await self._task.checkpoint()

    async def digest(self) -> None:
        """Do all the work, one small step in a thread at a time."""
        while True:
            await self._task.checkpoint()
            more = await asyncio.to_thread(self.walk.advance)
            self._pending += self.walk.take_lines()
            await self._tell_progress(now=not more)
            if not more:
                await self._list(last=True)
                return
            if time.monotonic() - self._saved >= SAVE_S:
                await self._save()

    async def _tell_progress(self, *, now: bool) -> None:
        if not now and time.monotonic() - self._told < PROGRESS_S:
            return
        self._told = time.monotonic()
        done, position, totals = self.walk.bytes_done, self.walk.position, self._totals
        share = done / totals.bytes if totals.bytes else 1.0
        # The files may have grown since they were counted.
        total_files = max(totals.files, position.files)
        steps = (max(position.files, 1), total_files) if total_files else (None, None)
        await self._task.progress(
            min(100.0, round(100 * share, 1)),
            f"{position.files} of {total_files} files, {readable(done)}",
            current_step=steps[0],
            total_steps=steps[1],
        )

    async def _save(self) -> None:
        # First the listing, then the position behind it: a crash in between repeats lines, the
        # other order would lose some.
        await self._list(last=False)
        await self._task.save(
            {"position": self.walk.position.to_json(), "listing_begun": self._listing_begun}
        )
        self._saved = time.monotonic()

    async def _list(self, *, last: bool) -> None:
        """Append the finished lines to the listing."""
        chunks = list(chunked(self._pending))
        self._pending = []
        if not chunks and last:
            chunks = [""]
        for number, text in enumerate(chunks, 1):
            await self._task.chunk(
                artifact_id=f"{LISTING}-{self._task.task_id}",
                name=LISTING,
                type="listing",
                mime_type="text/plain",
                append=self._listing_begun,
                last=last and number == len(chunks),
                parts=[Text(text)],
            )
            self._listing_begun = True


def _for_a_while(counting: Iterator[None]) -> bool:
    end = time.monotonic() + STEP_S
    return any(time.monotonic() > end for _ in counting)


def chunked(lines: list[str]) -> Iterator[str]:
    """The lines joined into texts of at most LISTING_BYTES, one line at least."""
    text: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode())
        if text and size + length > LISTING_BYTES:
            yield "".join(text)
            text, size = [], 0
        text.append(line)
        size += length
    if text:
        yield "".join(text)


def checked(path: str) -> Path:
    """The directory to digest. Raises TaskFailed, naming `path`, if it cannot be read."""
    try:
        with os.scandir(path):
            return Path(path)
    except OSError as problem:
        raise TaskFailed(
            f"path: {printable(path)}: {problem.strerror}",
            code=INVALID_ARGUMENT,
            reason="argument_invalid",
            data={"field": "path"},
        ) from None


def markdown(details: dict[str, Any]) -> str:
    """The report as a person reads it."""
    rows = (
        ("Directory", f"`{details['path']}`"),
        ("Files", str(details["files"])),
        ("Size", f"{readable(details['bytes'])} ({details['bytes']} bytes)"),
        ("Combined SHA-256", f"`{details['sha256']}`"),
        ("Errors", str(details["errors"])),
    )
    lines = ["# File digests", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    if details["problems"]:
        lines += ["", "## Errors", ""]
        lines += [f"- `{problem}`" for problem in details["problems"]]
        if details["errors"] > len(details["problems"]):
            lines.append(f"- and {details['errors'] - len(details['problems'])} more")
    return "\n".join(lines) + "\n"


def readable(count: int) -> str:
    """1536 as `1.5 KiB`."""
    size = float(count)
    for unit in UNITS[:-1]:
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != UNITS[0] else f"{count} {unit}"
        size /= 1024
    return f"{size:.1f} {UNITS[-1]}"
