"""Runs one seed and has it judged."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from aiosd.application import ledger
from tests.simulation.oracle import judge
from tests.simulation.world import World
from tests.support.virtual_loop import Livelock, VirtualLoop


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a seed."""

    seed: int
    verdict: list[str]
    world: World

    def __str__(self) -> str:
        lines = [f"seed {self.seed} breaks {len(self.verdict)} promises:"]
        lines += [f"  {what}" for what in self.verdict[:20]]
        lines += [f"run it again: make sim SEED={self.seed}"]
        return "\n".join(lines)


def simulate(seed: int) -> Run:
    """The same seed gives the same run."""
    loop = VirtualLoop(random.Random(seed))
    cached = ledger.CACHED_TASKS
    asyncio.set_event_loop(loop)
    try:
        world = loop.run_until_complete(_begin(seed))
        ledger.CACHED_TASKS = world.cached_tasks
        try:
            loop.run_until_complete(world.run())
            verdict = judge(world)
        except Livelock:
            verdict = ["something runs for ever while time stands still"]
        finally:
            loop.run_until_complete(world.bury(loop))
    finally:
        ledger.CACHED_TASKS = cached
        asyncio.set_event_loop(None)
        loop.close()
    verdict += [f"{fault.get('message')}: {fault.get('exception')!r}" for fault in loop.faults]
    return Run(seed, verdict, world)


async def _begin(seed: int) -> World:
    return World(seed)


def story(run: Run) -> str:
    """Everything that happened to the tasks that the verdict names, to read when a seed fails."""
    lines = [str(run)]
    for event in run.world.faults.events:
        if any(what.startswith(event.task_id[-4:]) for what in run.verdict):
            lines.append(f"{event.time % 10_000_000:>9} {event.task_id[-4:]} {event.payload}")
    lines += [f"{time:9.3f} {where} {what}" for time, where, what in run.world.notes]
    return "\n".join(lines)
