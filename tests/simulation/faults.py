"""A store that fails at random, before and after the effect, and remembers what took effect."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiosd.application.ports import CommitUnknown, StoreFull
from aiosd.application.writes import AppendEvents, PutTask
from aiosd.domain.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.writes import Write
    from aiosd.domain.event import Event
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Stored:
    """A task as a commit left it; `order` counts the commits of all tasks."""

    order: int
    time: float
    task: Task


class Faults:
    """The hooks of MemoryStore. Each rate is the chance that one commit meets the fault."""

    def __init__(self, world: World) -> None:
        self._world = world
        rng = world.rng
        self.full = rng.choice((0.0, 0.0, 0.02))
        self.failed = rng.choice((0.0, 0.01, 0.05))
        self.unknown = rng.choice((0.0, 0.01, 0.05))
        self.slow = rng.choice((0.0, 0.02))
        self.stored: list[Stored] = []
        self.events: list[Event] = []

    def heal(self) -> None:
        """No more faults."""
        self.full = self.failed = self.unknown = self.slow = 0.0

    async def before(self, _: Sequence[Write]) -> None:
        """About to commit."""
        rng = self._world.rng
        await asyncio.sleep(0 if rng.random() < 0.5 else rng.random() * 0.02)
        if rng.random() < self.slow:
            await asyncio.sleep(rng.random() * 4)
        if rng.random() < self.full:
            raise StoreFull
        if rng.random() < self.failed:
            raise CommitUnknown

    async def after(self, writes: Sequence[Write]) -> None:
        """Committed."""
        now = asyncio.get_running_loop().time()
        for write in writes:
            if isinstance(write, PutTask):
                self.stored.append(Stored(len(self.stored), now, write.task))
            elif isinstance(write, AppendEvents):
                self.events.extend(write.events)
        rng = self._world.rng
        await asyncio.sleep(0 if rng.random() < 0.7 else rng.random() * 0.02)
        if rng.random() < self.unknown:
            raise CommitUnknown
