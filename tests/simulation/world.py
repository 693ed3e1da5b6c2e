"""A whole service in one thread and virtual time: daemon, providers, clients, bad weather.

Everything random comes from one seed, so a seed is a history. What parties saw is recorded for
the oracle, which alone judges it.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosd.application.errors import ShuttingDown
from aiosd.application.limits import Limits
from aiosd.application.ports import ReadFailed
from aiosd.domain.capability import Capability, PermissionLevel
from aiosd.domain.errors import Refusal
from aiosd.domain.event import Event
from aiosd.domain.state import TaskState
from tests.simulation.client import Client
from tests.simulation.daemon import Daemon, Down
from tests.simulation.faults import Faults, ShakyStore
from tests.simulation.provider import Provider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.domain.interruption import Interruption
    from aiosd.domain.task import Task
    from tests.support.virtual_loop import VirtualLoop

STORM_SECONDS = 30
CALM_SECONDS = 240
TASKS = 12
LOOK_AGAIN = 0.25


@dataclass(frozen=True, slots=True)
class Execution:
    """A provider got Go and began."""

    time: float
    attempt: int
    session: str
    commits: int


@dataclass(slots=True)
class Watcher:
    """What one subscriber saw, over all its connections."""

    task_id: str
    after: int
    events: list[Event] = field(default_factory=list)
    #: (cursor before, oldest there was) of each cut that it was told of.
    cuts: list[tuple[int, int]] = field(default_factory=list)
    ended: bool = False


class World:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.faults = Faults(self)
        self.store = ShakyStore(self.faults)
        #: With a small one the core has to read what it usually remembers.
        self.cached_tasks = self.rng.choice((2048, 2))
        self.limits = Limits(
            max_concurrent_tasks=4,
            max_tasks_per_tool=2,
            max_queue_size=8,
            heartbeat_interval_ms=1_000,
            lease_ms=4_000,
            reattach_window_ms=5_000,
            offer_timeout_ms=1_000,
            cancel_grace_ms=1_000,
            pause_timeout_ms=1_000,
            input_timeout_ms=self.rng.choice((0, 10_000)),
            auth_timeout_ms=10_000,
            event_retention=self.rng.choice((100_000, 12)),
            drain_grace_ms=500,
        )
        self.capabilities = tuple(
            Capability(f"sim.{name}", level, tool_id=tool, pausable=tool == "x")
            for name, tool, level in (
                ("a", "x", PermissionLevel.PUBLIC),
                ("b", "x", PermissionLevel.PUBLIC),
                ("c", "y", PermissionLevel.PUBLIC),
                ("high", "x", PermissionLevel.HIGH),
                ("critical", "y", PermissionLevel.CRITICAL),
            )
        )
        self.repeats = self.rng.choice((0.0, 0.1))
        self.lag = self.rng.choice((0.002, 0.05, 0.2))
        self.calm = False
        self.done = False
        self.over = False
        self.creating = 0
        self.blames: list[str] = []
        self.notes: list[tuple[float, str, str]] = []
        self.acknowledged: dict[str, Task] = {}
        self.keys: defaultdict[str, set[str]] = defaultdict(set)
        self.promises: dict[str, TaskState] = {}
        self.executions: defaultdict[str, list[Execution]] = defaultdict(list)
        self.watchers: list[Watcher] = []
        self.answers: defaultdict[tuple[str, str], list[tuple[str, str, bool]]] = defaultdict(list)
        #: (who, from, until): what may excuse the loss of a provider.
        self.excuses: list[tuple[str, float, float]] = []
        self.used: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._answer_count = 0
        self._work: set[asyncio.Task[None]] = set()
        self.daemon = Daemon(self)
        self.providers = [
            Provider(self, "p", self.capabilities[:2]),
            Provider(self, "q", self.capabilities),
        ]

    # --- what parties report ----------------------------------------------------------------------

    def latency(self) -> float:
        """Seconds that the next message takes."""
        if self.calm or self.rng.random() < 0.98:
            return self.rng.random() * self.lag
        return self.rng.random() * 2

    def note(self, where: str, what: str) -> None:
        """Something worth reading when a seed fails."""
        self.notes.append((asyncio.get_running_loop().time(), where, what))

    def excuse(self, who: str, seconds: float = 0) -> None:
        """Somebody is, or will be, unable to show signs of life."""
        now = asyncio.get_running_loop().time()
        self.excuses.append((who, now, now + seconds))

    def blame(self, where: str, what: str) -> None:
        """A violation that a party saw itself."""
        self.blames.append(f"{where}: {what}")

    def acknowledge(self, task: Task, key: str) -> None:
        """A creation was answered with success."""
        self.acknowledged[task.id] = task
        if key:
            self.keys[key].add(task.id)

    def promise(self, task_id: str, state: TaskState) -> None:
        """An answer said that the task is in this terminal state."""
        self.promises[task_id] = state

    def execute(self, task_id: str, attempt: int, session: str) -> None:
        """A provider begins: a side effect that can be counted."""
        now = asyncio.get_running_loop().time()
        self.executions[task_id].append(Execution(now, attempt, session, len(self.faults.stored)))

    def refused_as_full(self) -> None:
        """QueueFull: the queue must have been full, creations under way included."""
        queued = len(self.store._in_state(TaskState.SUBMITTED))
        if queued + self.creating < self.limits.max_queue_size:
            self.blame("queue", f"called full with {queued} queued, {self.creating} under way")

    def answer(self, task_id: str, interruption_id: str) -> str:
        """A new answer, unlike any other."""
        del task_id, interruption_id
        self._answer_count += 1
        return f"answer-{self._answer_count}"

    def answered(self, task_id: str, wait: Interruption, text: str, *, sure: bool) -> None:
        """An answer was accepted, or may have been."""
        self.answers[task_id, wait.action].append((wait.interruption_id, text, sure))

    def deliver(self, task_id: str, token: str, action: str, value: str) -> None:
        """A provider was told an answer."""
        if not any(value == text for _, text, _ in self.answers[task_id, action]):
            # The answer may be told before its caller is.
            self.used[task_id, token, f"early {action}"].append(value)

    def use(self, task_id: str, token: str, action: str, value: str) -> None:
        """An attempt goes on with an answer."""
        self.used[task_id, token, action].append(value)

    def follow(self, task_id: str, after: int) -> None:
        """Subscribe, and subscribe again whenever the stream ends early."""
        watcher = Watcher(task_id, after)
        self.watchers.append(watcher)
        self._spawn(self._follow(watcher))

    async def _follow(self, watcher: Watcher) -> None:
        cursor = watcher.after
        while not watcher.ended and not self.done:
            patience = 1000 if self.calm else self.rng.randrange(1, 20)
            try:
                batches = self.daemon.stream(
                    lambda core: core.watch.follow(watcher.task_id, cursor)  # noqa: B023
                )
                async for batch in batches:
                    if batch.truncated:
                        watcher.cuts.append((cursor, batch.oldest))
                    watcher.events.extend(batch.events)
                    cursor = batch.cursor
                    patience -= 1
                    if not patience:
                        break
                else:
                    watcher.ended = True
                await batches.aclose()  # type: ignore[attr-defined]
            except (Down, ReadFailed, ShuttingDown):
                pass
            except Refusal as refusal:
                self.blame(watcher.task_id, f"watch after {cursor}: {refusal}")
                return
            await asyncio.sleep(self.rng.random() * 0.5)

    # --- the course of a run ----------------------------------------------------------------------

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._work.add(task)
        return task

    async def run(self) -> None:
        """Storm, then calm until everything has ended or its time is over."""
        self.daemon.start()
        for provider in self.providers:
            provider.start()
        await self._until(self._opened, 60)
        clients = [Client(self, "ann"), Client(self, "bob")]
        living = [self._spawn(one.live(TASKS // 2)) for one in clients]
        loop = asyncio.get_running_loop()
        end = loop.time() + STORM_SECONDS
        while loop.time() < end:
            await asyncio.sleep(self.rng.expovariate(0.5))
            self._strike()
        self._clear_up()
        await asyncio.gather(*living)
        finishing = [self._spawn(one.finish()) for one in clients]
        await self._until(self._settled, CALM_SECONDS)
        self.done = True
        await asyncio.gather(*finishing)
        await asyncio.wait(self._work, timeout=5)

    def _strike(self) -> None:
        rng, daemon = self.rng, self.daemon
        provider = rng.choice(self.providers)
        luck = rng.random()
        if not provider.running and luck < 0.7:
            provider.start()
        elif luck < 0.12:
            provider.die(silent=rng.random() < 0.3)
        elif luck < 0.3:
            provider.cut()
        elif luck < 0.4:
            provider.stall(rng.random() * 6)
        elif luck < 0.55:
            self._freeze(provider, rng.random() * 6)
        elif luck < 0.58:
            provider.detach()
        elif luck < 0.7 and daemon.process.alive:
            if rng.random() < 0.3:
                self._spawn(self._stop_daemon())
            else:
                daemon.kill()
                asyncio.get_running_loop().call_later(rng.choice((0.1, 1, 4)), daemon.start)

    async def _stop_daemon(self) -> None:
        process = self.daemon.process
        await self.daemon.stop()
        if self.daemon.process is process:
            self.daemon.start()  # nobody else did

    def _freeze(self, provider: Provider, seconds: float) -> None:
        self.excuse(provider.name, seconds)
        process = provider.process
        if process.alive:
            process.freeze()
            asyncio.get_running_loop().call_later(seconds, process.thaw)

    def _clear_up(self) -> None:
        self.calm = True
        self.lag = 0.01
        self.faults.heal()
        for provider in self.providers:
            if provider.running:
                provider.cut()  # whoever owes an answer need not give it on a new stream
            else:
                provider.start()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not condition() and loop.time() < end:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(LOOK_AGAIN)

    def _opened(self) -> bool:
        return self.daemon.core is not None and len(self.daemon.core.capabilities.all()) == 5

    def _settled(self) -> bool:
        if self.daemon.core is None:
            return False
        records = self.store._records.tasks.values()
        ended = all(record.task.terminal for record in records)
        return ended and all(one.ended for one in self.watchers)

    def open_tasks(self) -> list[str]:
        """Those that have not ended, those included that no client knows it made."""
        return [
            one for one, record in self.store._records.tasks.items() if not record.task.terminal
        ]

    async def bury(self, loop: VirtualLoop) -> None:
        """End every task of every process, so that nothing is left pending."""
        self.over = True
        owners: tuple[Daemon | Provider, ...] = (self.daemon, *self.providers)
        dead = [one for owner in owners for one in owner.buried]
        processes = (*dead, *(owner.process for owner in owners))
        for process in processes:
            process.kill()
        for task in tuple(self._work):
            task.cancel()
        await asyncio.wait(self._work)
        for process in processes:
            await loop.bury(process)
