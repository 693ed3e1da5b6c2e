"""Kills under load: nothing acknowledged is lost, nothing goes back (I01-I06)."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import apsw
import pytest

from aiosd.api.v1 import task_pb2
from aiosd.sdk import AiosdError, Client, connect
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.programs import Programs

STEPS = [{"progress": {"percent": 50}}]
TERMINAL = (
    task_pb2.TASK_STATE_COMPLETED,
    task_pb2.TASK_STATE_FAILED,
    task_pb2.TASK_STATE_CANCELED,
)


class Load:
    """Clients that create with keys and repeat each until it is answered."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.acknowledged: dict[str, str] = {}
        self.repeated = 0
        self.stopping = False

    async def reached(self, count: int) -> bool:
        return len(self.acknowledged) >= count

    async def run(self, number: int) -> None:
        async with connect(self._address, patience_ms=0) as client:
            count = 0
            while not self.stopping:
                key = f"key-{number}-{count}"
                count += 1
                self.acknowledged[key] = await eventually(
                    lambda: self._create(client, key),  # noqa: B023
                    within_s=90,  # a client may meet kill after kill
                )

    async def _create(self, client: Client, key: str) -> str:
        try:
            async with asyncio.timeout(5):
                task = await client.create("lab.script", {"steps": STEPS}, request_id=key)
        except (AiosdError, TimeoutError):
            self.repeated += 1
            return ""  # unknown: the same key is asked again
        return task.task_id


@pytest.mark.req("I01", "I02", "I03", "I05", "I06", "R056", "R191", "H04")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
async def test_kills_under_load_lose_nothing_that_was_acknowledged(
    programs: Programs, kills: int
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    daemon = await programs.daemon()
    await programs.lab()
    load = Load(programs.address)
    clients = [asyncio.ensure_future(load.run(number)) for number in range(4)]
    slowest = 0.0
    revisions: dict[str, tuple[int, int]] = {}
    for _ in range(kills):
        target = len(load.acknowledged) + chance.randrange(2, 30)
        await eventually(lambda: load.reached(target), within_s=20)  # noqa: B023
        await daemon.kill()
        began = time.monotonic()
        daemon = await programs.daemon()
        slowest = max(slowest, time.monotonic() - began)
        await no_regress(programs.address, load, chance, revisions)
    load.stopping = True
    await asyncio.gather(*clients)
    async with connect(programs.address) as client:
        assert load.repeated
        for key, task_id in load.acknowledged.items():
            again = await client.create("lab.script", {"steps": STEPS}, request_id=key)
            assert again.task_id == task_id, f"{key} was lost; seed {seed}"
            done = await client.wait(task_id, 30_000)
            assert done.state in TERMINAL, f"{key} is stuck; seed {seed}"
    assert len(set(load.acknowledged.values())) == len(load.acknowledged)
    assert slowest < 5, f"not ready for {slowest:.1f} s; seed {seed}"
    assert await daemon.terminate() == 0
    database = apsw.Connection(str(programs.state_dir / "aiosd.db"))
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def no_regress(
    address: str, load: Load, chance: random.Random, revisions: dict[str, tuple[int, int]]
) -> None:
    """A task that was seen never goes back, and a terminal one never changes its state."""
    sample = chance.sample(sorted(load.acknowledged.values()), min(20, len(load.acknowledged)))
    async with connect(address) as client:
        for task_id in sample:
            task = await client.get(task_id)
            revision, state = revisions.get(task_id, (0, 0))
            assert task.revision >= revision
            assert state not in TERMINAL or state == task.state
            revisions[task_id] = (task.revision, task.state)


@pytest.mark.req("H09")
@pytest.mark.parametrize(
    ("count", "grown_mib"), [(1000, 16), pytest.param(10_000, 50, marks=pytest.mark.slow)]
)
async def test_queued_tasks_cost_disk_and_not_memory(
    programs: Programs, count: int, grown_mib: int
) -> None:
    daemon = await programs.daemon()
    lab = await programs.lab()
    assert await lab.terminate() == 0
    async with connect(programs.address) as client:
        for _ in range(50):
            await client.create("lab.script", {})
        before, early = resident_kib(daemon.pid), await read_cost(client)

        async def some(share: int) -> None:
            for _ in range(share):
                await client.create("lab.script", {"steps": []})

        await asyncio.gather(*(some(count // 32) for _ in range(32)))
        grown = resident_kib(daemon.pid) - before
        late = await read_cost(client)
    assert grown < grown_mib * 1024, f"grew by {grown} KiB"
    assert late < 5 * early + 0.05, f"list and get went from {early:.4f} s to {late:.4f} s"


async def read_cost(client: Client) -> float:
    """Seconds for ten lists and ten reads, the best of five."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(10):
            newest = (await client.list(limit=20)).tasks[0]
            await client.get(newest.task_id)
        best = min(best, time.perf_counter() - began)
    return best


def resident_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise AssertionError("no VmRSS")
