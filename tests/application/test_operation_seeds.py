"""Random lives of operations: both processes die at any instant, commits fail, time runs out.

Every seed ends with what the marks of the instance say, never with more (R163-R170).
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.application.ports import CommitUnknown, OperationQuery
from aiosd.domain.errors import Refusal
from tests.application.runtime_world import OWNER, RuntimeWorld
from tests.support.operation_consistency import check_snapshot, seen
from tests.support.virtual_loop import PROCESS, run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.writes import Write
    from aiosd.domain.operation import Operation

pytestmark = pytest.mark.sim
SEEDS = 200
BAD = '{"n":"five"}'


class Life:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.calm = False
        self.world = RuntimeWorld(before=self._before, after=self._after)
        #: Newest snapshot that anybody saw, per operation; only ever replaced by later ones.
        self.seen: dict[str, Operation] = {}

    async def _before(self, _: Sequence[Write]) -> None:
        await asyncio.sleep(self.rng.choice((0, 0.001, 0.01)))
        if not self.calm and self.rng.random() < 0.04:
            raise CommitUnknown("failed")

    async def _after(self, _: Sequence[Write]) -> None:
        if not self.calm and self.rng.random() < 0.04:
            raise CommitUnknown("happened")
        await asyncio.sleep(self.rng.choice((0, 0.001)))

    async def run(self) -> None:
        world, rng = self.world, self.rng
        world.instance.start()
        for _ in range(rng.randint(4, 8)):
            await self._ask()
            for _ in range(rng.randint(0, 3)):
                await asyncio.sleep(rng.random() * 0.4)
                await self._strike()
                await self._look()
        self.calm = True
        if not world.daemon.process.alive:
            world.start_daemon()
        if not world.instance.process.alive:
            world.instance.start()
        await self._settle()
        for one in await world.store.operations(OperationQuery(limit=200)):
            await self._judge(one)
        await world.bury()

    async def _ask(self) -> None:
        rng = self.rng
        script: list[list[Any]] = [["sleep", rng.randint(0, 300)]]
        match rng.randint(0, 5):
            case 0:
                script += [["fail", "no luck"]]
            case 1:
                script += [["effect"], ["report", BAD], ["sleep", 100], ["commit", {"n": 3}]]
            case 2:
                script += [["effect"], ["report", BAD]]
            case _:
                pause = ["sleep", rng.randint(0, 300)]
                script += [["effect"], pause, ["commit", {"n": rng.randint(0, 9)}]]
        deadline = rng.choice((0, 0, rng.randint(50, 800)))
        with suppress(Refusal):  # nobody attached yet, or the store failed: both are answers
            await self._call(self.world.create(*script, deadline_ms=deadline))

    async def _strike(self) -> None:
        world = self.world
        match self.rng.randint(0, 7):
            case 0:
                if world.daemon.process.alive:
                    world.kill_daemon()
            case 1 | 2:
                if not world.daemon.process.alive:
                    world.start_daemon()
            case 3:
                if world.instance.process.alive:
                    world.instance.kill()
            case 4 | 5:
                if not world.instance.process.alive:
                    world.instance.start()
            case 6:
                world.instance.disconnect()
            case _:
                await self._cancel_one()

    async def _cancel_one(self) -> None:
        found = await self.world.store.active_operations()
        if found:
            one = self.rng.choice(found)
            with suppress(Refusal):
                await self._call(self.world.daemon.operations.cancel(OWNER, one.id, "enough"))

    async def _call(self, work: Any) -> Any:
        """A call of a client: belongs to the daemon's process and is given up when that dies."""
        process = self.world.daemon.process
        if not process.alive:
            work.close()
            return None
        call = process.spawn(work)
        assert PROCESS.get() is not process
        for _ in range(500):
            if call.done() or not process.alive:
                break
            await asyncio.sleep(0.01)
        if not call.done():
            call.add_done_callback(lambda done: done.cancelled() or done.exception())
            return None
        return await call

    async def _look(self) -> None:
        """What anybody can see now fits what was seen before."""
        for one in await self.world.store.operations(OperationQuery(limit=200)):
            check_snapshot(seen(one))
            before = self.seen.get(one.id)
            if before is not None:
                assert one.sequence >= before.sequence
                assert not before.terminal or one == before
                assert not before.committed or one.committed
            self.seen[one.id] = one

    async def _settle(self) -> None:
        for _ in range(3_000):
            await self._look()
            active = await self.world.store.active_operations()
            if all(one.status.word == "projection_blocked" for one in active):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"never settled: {active}")

    async def _judge(self, one: Operation) -> None:
        marks, told = self.world.effects[one.id], self.world.told[one.id]
        log = await self.world.log(one.id)
        assert told <= 1, "given out twice"
        assert marks <= 1, "executed twice"
        match one.status.word:
            case "succeeded" | "projection_blocked":
                assert marks == 1
            case "failed" | "cancelled" | "expired":
                assert marks == 0
            case word:
                assert word == "outcome_unknown"
                assert told or log[0].type == "runtime_operation_started"


@pytest.mark.req("R163", "R164", "R165", "R166", "R167", "R169", "R170", "I16", "I17")
@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_every_life_of_an_operation_ends_with_the_truth(first: int) -> None:
    for seed in range(first, first + 20):

        async def whole(seed: int = seed) -> None:
            await Life(seed).run()

        try:
            run_virtual(whole, seed)
        except BaseException as failure:
            failure.add_note(f"seed {seed}")
            raise
