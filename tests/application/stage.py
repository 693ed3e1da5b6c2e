"""The whole core on a store in memory, in virtual time, with providers that tests move by hand."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from aiosd.adapters.memory import MemoryStore
from aiosd.application import messages as wire
from aiosd.application.access import SCOPES, Caller
from aiosd.application.core import Core
from aiosd.application.creation import NewTask
from aiosd.application.limits import Limits
from aiosd.application.ports import CommitUnknown, StoreFull
from aiosd.application.quotas import Quota
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.task import Options
from tests.support.builders import a_capability
from tests.support.manual_clock import CountingIds, LoopClock, NoSchemas
from tests.support.trust import open_trust
from tests.support.virtual_loop import PROCESS, Process, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from aiosd.application.sessions import Session
    from aiosd.application.writes import Write
    from aiosd.domain.capability import Capability
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task

T = TypeVar("T")
M = TypeVar("M")

ANN = Caller("ann", SCOPES - {"admin:*"})
BOB = Caller("bob", SCOPES - {"admin:*"})
#: Of the daemon: nothing that it holds is counted.
OWNER = Caller("owner", SCOPES - {"admin:*"})
LIMITS = Limits(
    heartbeat_interval_ms=1_000,
    lease_ms=3_000,
    reattach_window_ms=5_000,
    offer_timeout_ms=1_000,
    cancel_grace_ms=1_000,
    pause_timeout_ms=1_000,
)
MOMENT = 0.001


class Hand:
    """A provider session in the hand of a test; it beats, and accepts offers unless told not to."""

    def __init__(self, stage: Stage, session_id: str, *, accepts: bool = True) -> None:
        self._stage = stage
        self.session_id = session_id
        self.accepts = accepts
        self.beats = True
        self.told: list[Any] = []
        self.closed = ""
        self.numbers: dict[tuple[str, int], int] = {}
        self.session: Session | None = None

    # --- as a ProviderLink ------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """The daemon says something."""
        self.told.append(message)
        if isinstance(message, wire.Offer) and self.accepts:
            self.accept(message.task.id, message.attempt)

    def close(self, session_lost: bool) -> None:
        """The daemon ends the stream."""
        self.closed = "lost" if session_lost else "taken over"

    # --- moves ------------------------------------------------------------------------------------

    async def attach(
        self,
        *capabilities: Capability,
        credits: int = 5,
        held: tuple[wire.HeldAttempt, ...] = (),
    ) -> Hand:
        """Hello; returns once Welcome was said and all else that follows from it."""
        core = self._stage.core
        offered = capabilities or (a_capability(),)
        await core.capabilities.remember(offered)
        hello = wire.Hello(self.session_id, "hand", offered, credits, held)
        self.session = await core.execution.attach(hello, "providers", self)
        self._stage.spawn(self._beat())
        await self._stage.settle()
        return self

    async def _beat(self) -> None:
        while self.session is not None and not self.closed:
            if self.beats and self.session.link is self:
                self._stage.core.sessions.heartbeat(self.session)
            await asyncio.sleep(LIMITS.heartbeat_interval_ms / 1000)

    def accept(self, task_id: str, attempt: int = 1) -> None:
        """Take an offer."""
        session = self.session or self._stage.core.sessions.get(self.session_id)
        assert session is not None
        self._stage.core.execution.accept(session, task_id, attempt)

    async def reject(self, task_id: str, *, busy: bool) -> None:
        """Decline an offer."""
        assert self.session is not None
        self._stage.core.execution.reject(self.session, task_id, 1, busy=busy, reason="not mine")
        await self._stage.settle()

    async def say(self, task: Task, *said: Any, attempt: int = 1, number: int = 0) -> None:
        """Report, numbered on; settled unless the daemon waits for something."""
        assert self.session is not None
        for one in said:
            key = (task.id, attempt)
            self.numbers[key] = number or self.numbers.get(key, 0) + 1
            report = wire.Report(task.id, attempt, self.numbers[key], one)
            await self._stage.core.execution.report(self.session, report)
        await self._stage.settle()

    async def drop(self) -> None:
        """The stream breaks."""
        assert self.session is not None
        self._stage.core.execution.disconnect(self.session, self)
        await self._stage.settle()

    async def back(
        self, *capabilities: Capability, held: tuple[wire.HeldAttempt, ...] = ()
    ) -> Hand:
        """A new stream of the same session."""
        hand = Hand(self._stage, self.session_id, accepts=self.accepts)
        hand.numbers = self.numbers
        return await hand.attach(*capabilities, held=held)

    async def detach(self) -> None:
        """An end in order."""
        assert self.session is not None
        await self._stage.core.execution.detach(self.session)
        await self._stage.settle()

    def heard(self, kind: type[M], task: Task | None = None) -> list[M]:
        """What it was told of a kind, and of a task."""
        return [
            one
            for one in self.told
            if isinstance(one, kind) and (task is None or getattr(one, "task_id", None) == task.id)
        ]


def holding(
    task: Task, *, started: bool = True, paused: bool = False, waiting: str = "", attempt: int = 1
) -> tuple[wire.HeldAttempt, ...]:
    """The claim of Hello for one attempt."""
    return (wire.HeldAttempt(task.id, attempt, started, paused, waiting),)


class Stage:
    """A daemon that can be restarted, over a store that fails when it is told to."""

    def __init__(self, **limits: int) -> None:
        bounds = limits.keys() & Quota.__dataclass_fields__.keys()
        self.quota = Quota(**{name: limits.pop(name) for name in bounds})
        self.limits = replace(LIMITS, **limits)
        self.store = MemoryStore(before=self._before, after=self._after)
        #: What the next commits do: "full", "failed" or "unknown", or nothing.
        self.faults: list[str] = []
        #: While it is not set, commits that took effect are not answered.
        self.answering = asyncio.Event()
        self.answering.set()
        self._ids = CountingIds()
        self._trust = open_trust()
        self._dead: list[Process] = []
        self._process = Process("daemon")

    async def _before(self, _: Sequence[Write]) -> None:
        await asyncio.sleep(0)
        if self.faults and self.faults[0] == "full":
            self.faults.pop(0)
            raise StoreFull
        if self.faults and self.faults[0] == "failed":
            self.faults.pop(0)
            raise CommitUnknown

    async def _after(self, _: Sequence[Write]) -> None:
        await self.answering.wait()
        if self.faults and self.faults.pop(0) == "unknown":
            raise CommitUnknown

    async def start(self) -> Stage:
        """A daemon starts and recovers."""
        PROCESS.set(self._process)
        self.core = Core(
            store=self.store,
            clock=LoopClock(),
            ids=self._ids,
            schemas=NoSchemas(),
            key=b"k" * 32,
            limits=self.limits,
            trust=self._trust,
            quota=self.quota,
            exempt=(OWNER.principal,),
        )
        await self.core.start()
        self.spawn(self.core.run())
        await self.core.capabilities.remember([a_capability()])
        await self.settle()
        return self

    async def restart(self) -> None:
        """kill -9, and a new process."""
        self._process.kill()
        self._dead.append(self._process)
        self._process = Process("daemon")
        started = self._process.spawn(self.start())
        await started

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work inside the daemon's process."""
        return self._process.spawn(work)

    async def settle(self) -> None:
        """Let everything happen that can happen now."""
        await asyncio.sleep(MOMENT)

    async def pass_time(self, ms: int) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(ms / 1000)

    async def create(
        self, capability_id: str = "demo.work", *, caller: Caller = ANN, **members: Any
    ) -> Task:
        """A task of ann's, or of another's; option names are taken as options."""
        names = {"priority", "timeout_ms", "retry_safe", "deadline_ms", "synchronous"}
        options = {name: members.pop(name) for name in names & members.keys()}
        attempts = members.pop("max_attempts", 1)
        options["retry"] = RetryPolicy(attempts, members.pop("delay_ms", 0))
        new = NewTask(capability_id, options=Options(**options), retry_named=True, **members)
        task, _ = await self.core.creation.create(caller, new)
        await self.settle()
        return task

    async def now(self, task: Task) -> Task:
        """The task as it is."""
        return await self.core.control.get(ANN, task.id)

    async def log(self, task: Task) -> list[Event]:
        """Its events."""
        return list(await self.store.events(task.id, 0, 10_000))

    async def bury(self, loop: VirtualLoop) -> None:
        """End every process."""
        PROCESS.set(None)
        for process in (*self._dead, self._process):
            process.kill()
            await loop.bury(process)


def on_stage(
    **limits: int,
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Run a test in virtual time; its first parameter is a stage that has started."""

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @wraps(test)
        def run(**named: Any) -> None:
            loop = VirtualLoop()

            async def whole() -> None:
                stage = Stage(**limits)
                try:
                    await asyncio.create_task(_played(stage, test, named))
                finally:
                    await stage.bury(loop)

            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(whole())
            for fault in loop.faults:
                raise AssertionError(fault.get("message")) from fault.get("exception")

        names = list(inspect.signature(test).parameters.values())[1:]
        run.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        del run.__wrapped__
        return run

    return decorate


async def _played(
    stage: Stage, test: Callable[..., Coroutine[Any, Any, None]], named: dict[str, Any]
) -> None:
    await stage.start()
    PROCESS.set(None)
    await test(stage, **named)
