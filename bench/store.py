"""How fast the store is: mutations in batches, single commits, reads, and growth with size.

    python -m bench.store [--tasks 20000] [--dir /var/tmp]

A mutation is what one task goes through: created, started, finished; each with its events.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from aiosd.adapters.sqlite import SqliteStore
from aiosd.adapters.sqlite.changes import encode
from aiosd.application.ports import TaskOrder, TaskQuery
from aiosd.application.writes import AppendEvents, IdempotencyKey, PutTask
from aiosd.domain import lifecycle
from aiosd.domain.draft import Draft
from aiosd.domain.state import TaskState
from aiosd.domain.task import TaskRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.application.writes import Write
    from aiosd.domain.task import Task

TIMES = ("create_time", "start_time", "update_time", "state_time", "end_time")
NOW = 1_764_547_200_000
ARGUMENTS = '{"path":"/usr/share/doc","recursive":true,"algorithm":"sha256"}'


def created(number: int) -> tuple[Draft, list[Write]]:
    """A new task with its key, as a create writes them."""
    draft = lifecycle.submit(
        task_id=f"task-{number:032x}",
        context_id=f"ctx-{number:032x}",
        principal="owner",
        request=TaskRequest("system.files.digest", "files", ARGUMENTS),
        now=NOW + number,
    )
    key = IdempotencyKey("owner", "CreateTask", f"k-{number:032x}", "f" * 64, draft.task.id, NOW)
    return draft, [*writes_of(draft, 0), key]


def writes_of(draft: Draft, expected: int) -> list[Write]:
    """The commit of a draft."""
    events = AppendEvents(draft.task.id, tuple(draft.events), tuple(draft.history))
    return [PutTask(draft.task, expected), events]


def changed(task: Task, change: Callable[[Draft], object]) -> tuple[Task, list[Write]]:
    """A task after a command, and the commit that stores it."""
    draft = Draft(task, task.update_time + 1)
    change(draft)
    return draft.task, writes_of(draft, task.revision)


async def one_task(store: SqliteStore, number: int) -> None:
    """Create, start, finish; three durable commits, one after the other."""
    draft, writes = created(number)
    await store.commit(writes)
    task, writes = changed(draft.task, lambda one: lifecycle.start(one, "sess-1"))
    await store.commit(writes)
    _, writes = changed(task, lambda one: lifecycle.complete(one, '{"digest":"0"}'))
    await store.commit(writes)


async def at_once(jobs: int, concurrency: int, job: Callable[[int], Awaitable[object]]) -> float:
    """Seconds that so many jobs take, with so many of them in flight."""
    numbers = iter(range(jobs))

    async def work() -> None:
        for number in numbers:
            await job(number)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return time.perf_counter() - began


async def p50_p99(times: int, ask: Callable[[int], Awaitable[object]]) -> str:
    """Median and 99th percentile of one call after the other, in microseconds."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        await ask(number)
        taken.append((time.perf_counter() - began) * 1e6)
    cuts = statistics.quantiles(taken, n=100)
    return f"p50 {cuts[49]:8.0f} us   p99 {cuts[98]:8.0f} us"


async def mutations(folder: Path, jobs: int) -> None:
    """Commits a second by how many are in flight."""
    for concurrency in (1, 16, 64, 256):
        store = SqliteStore.open(folder / f"mutations-{concurrency}.db")
        count = jobs if concurrency > 1 else jobs // 10
        seconds = await at_once(count, concurrency, lambda n, s=store: one_task(s, n))  # type: ignore[misc]
        print(f"commits, {concurrency:3d} in flight     {3 * count / seconds:10.0f} /s")
        await store.close()


async def encoding() -> None:
    """Cost of the caller's side of a commit."""
    _, writes = created(1)
    began = time.perf_counter()
    for _ in range(10_000):
        encode(writes)
    print(f"encode a create            {(time.perf_counter() - began) * 100:10.1f} us")


async def fill(store: SqliteStore, first: int, end: int) -> None:
    """Store finished tasks by the hundred."""
    draft, _ = created(0)
    lifecycle.start(draft, "sess-1")
    lifecycle.complete(draft, '{"digest":"0"}')
    for start in range(first, end, 100):
        writes: list[Write] = []
        for number in range(start, min(end, start + 100)):
            task_id, at = f"task-{number:032x}", NOW + number
            task = replace(
                draft.task,
                id=task_id,
                context_id=f"ctx-{number:032x}",
                **dict.fromkeys(TIMES, at),
            )
            events = tuple(replace(event, task_id=task_id) for event in draft.events)
            writes += [PutTask(task, 0), AppendEvents(task_id, events, tuple(draft.history))]
            writes.append(
                IdempotencyKey("owner", "CreateTask", f"k-{number:032x}", "f", task_id, at)
            )
        await store.commit(writes)


async def growth(folder: Path, sizes: list[int]) -> None:
    """Calls beside so many stored tasks, and what opening them costs."""
    path = folder / "growth.db"
    stored = 0
    for size in sizes:
        store = SqliteStore.open(path)
        await fill(store, stored, size)
        stored = size
        await store.close()
        began = time.perf_counter()
        store = SqliteStore.open(path)
        await store.open_tasks()
        opening = (time.perf_counter() - began) * 1000
        mebibytes = path.stat().st_size / 2**20
        print(f"\n{size} tasks stored: {mebibytes:.0f} MiB, opened in {opening:.0f} ms")
        for name, ask in calls(store, size).items():
            print(f"  {name:24s} {await p50_p99(300, ask)}")
        await store.close()


def calls(store: SqliteStore, size: int) -> dict[str, Callable[[int], Awaitable[object]]]:
    """What is measured beside stored tasks."""
    working = (TaskState.WORKING, TaskState.COMPLETED)
    return {
        "create": lambda n: store.commit(created(10**9 + size + n)[1]),
        "get": lambda n: store.task(f"task-{(n * 7919) % size:032x}"),
        "events": lambda n: store.events(f"task-{(n * 7919) % size:032x}", 0, 100),
        "key": lambda n: store.idempotency_key("owner", "CreateTask", f"k-{n:032x}"),
        "queued": lambda _: store.queued("system.files.digest", 10),
        "list": lambda _: store.tasks(TaskQuery(count=True)),
        "list by state": lambda _: store.tasks(TaskQuery(states=working, count=True)),
        "list by state time": lambda _: store.tasks(TaskQuery(order=TaskOrder.STATE_TIME)),
        "list, rare state": lambda _: store.tasks(TaskQuery(states=(TaskState.SUBMITTED,))),
        "list, deep page": lambda _: store.tasks(
            TaskQuery(after=(NOW + size // 2, f"task-{size // 2:032x}"))
        ),
    }


async def measure(folder: Path, jobs: int, sizes: list[int]) -> None:
    """Everything, printed as it comes."""
    await encoding()
    await mutations(folder, jobs)
    await growth(folder, sizes)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=5_000, help="tasks per measured point")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dir", type=Path, default=None, help="where the database is made")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.dir) as folder:
        uvloop.run(measure(Path(folder), asked.tasks, asked.sizes))


if __name__ == "__main__":
    main()
