"""A killed process loses nothing that it acknowledged, and leaves nothing half done (E19)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiosd.adapters.sqlite import SqliteStore, migrate
from aiosd.domain.state import TaskState
from tests.contract.builders import a_key, a_task

ROOT = Path(__file__).resolve().parents[3]
KILLS = 5
EACH = 400


def killed_writer(path: Path, first: int, acknowledged: int) -> list[int]:
    """Numbers that a writer acknowledged until it was killed after so many."""
    command = [sys.executable, "-m", "tests.adapters.sqlite.endless_writer", str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        numbers = [int(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.kill()
        # The last line may be cut, but each was written at once.
        return numbers + [int(line) for line in writer.stdout.read().splitlines()]


@pytest.mark.req("I01", "I02", "I06")
async def test_kills_lose_nothing_that_was_acknowledged(path: Path) -> None:
    acknowledged: list[int] = []
    for kill in range(KILLS):
        first = kill * 1_000_000
        acknowledged += killed_writer(path, first, EACH)
        assert migrate.problems(path) == []
        store = SqliteStore.open(path)
        for number in acknowledged[-EACH:]:
            assert await store.task(a_task(number).id) == a_task(number)
        # Whatever was in flight is there with all that belongs to it, or not at all.
        last = max(acknowledged)
        for number in range(last - 20, last + 20):
            task = a_task(number)
            whole = await store.task(task.id) is not None
            assert len(await store.events(task.id, 0, 10)) == (2 if whole else 0)
            assert len(await store.history(task.id)) == (2 if whole else 0)
            assert len(await store.messages(task.id, 0, 10)) == (1 if whole else 0)
            key = await store.idempotency_key("owner", "CreateTask", f"k{number}")
            assert key == (a_key(f"k{number}", target=task.id) if whole else None)
        await store.close()
    store = SqliteStore.open(path)
    assert await store.count(TaskState.SUBMITTED) >= len(acknowledged)
    await store.close()
