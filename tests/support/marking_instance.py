"""A provider whose one operation leaves a mark in a file: begun, then its effect.

    python -m tests.support.marking_instance FILE

Its method `mark` takes {before_ms, after_ms, state?}: it notes that it has begun, waits, has its
effect, waits, and reports. Each line of the file is synced, so that no kill loses one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from aiosd.sdk import OperationContext, Provider

STATE = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def mark(path: Path, word: str, operation_id: str) -> None:
    """One durable line."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{word} {operation_id}\n".encode())
    os.fsync(file)
    os.close(file)


def make(path: Path) -> Provider:
    """The provider; it is nothing but its instance."""
    provider = Provider("marking")
    provider.instance("marking", "Marking", {"n": 0}, STATE)

    @provider.operation("mark")
    async def run(operation: OperationContext, params: dict[str, Any]) -> None:
        mark(path, "begun", operation.operation_id)
        await asyncio.sleep(params.get("before_ms", 0) / 1000)
        mark(path, "effect", operation.operation_id)
        await asyncio.sleep(params.get("after_ms", 0) / 1000)
        await operation.commit({"n": operation.state["n"] + 1}, {"marked": True})

    return provider


async def main(path: Path) -> None:
    """Run until killed."""
    provider = make(path)

    async def announce() -> None:
        await provider.attached()
        sys.stdout.write(json.dumps({"ready": True}) + "\n")
        sys.stdout.flush()

    async with asyncio.TaskGroup() as group:
        group.create_task(announce())
        group.create_task(provider.run(f"unix:{os.environ['AIOSD_SOCKET']}"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
