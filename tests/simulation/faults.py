"""A store that fails at random, before and after the effect, and remembers what took effect."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiosd.adapters.memory import MemoryStore
from aiosd.application.ports import CommitUnknown, ReadFailed, StoreFull
from aiosd.application.writes import AppendEvents, PutTask
from aiosd.domain.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

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
        self.unreadable = rng.choice((0.0, 0.0, 0.01))
        self.wait_to_read = rng.choice((0.0, 0.5))
        self.stored: list[Stored] = []
        self.events: list[Event] = []

    def heal(self) -> None:
        """No more faults."""
        self.full = self.failed = self.unknown = self.slow = self.unreadable = 0.0

    async def reading(self) -> None:
        """Before and after a read."""
        rng = self._world.rng
        if rng.random() < self.wait_to_read:
            await asyncio.sleep(rng.choice((0, rng.random() * 0.01)))
        if rng.random() < self.unreadable:
            raise ReadFailed

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


class ShakyStore(MemoryStore):
    """Reads take time, see the store before or after it, and sometimes fail."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(before=faults.before, after=faults.after)
        self.faults = faults


def _shaky(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    read = getattr(MemoryStore, name)

    async def shaky(self: ShakyStore, *args: Any, **named: Any) -> Any:
        await self.faults.reading()
        result = await read(self, *args, **named)
        await self.faults.reading()
        return result

    return shaky


for _name, _ in inspect.getmembers(MemoryStore, inspect.iscoroutinefunction):
    if not _name.startswith(("_", "commit", "close", "forget")):
        setattr(ShakyStore, _name, _shaky(_name))
