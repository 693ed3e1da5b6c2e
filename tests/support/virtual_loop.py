"""An event loop in virtual time whose ready callbacks run in a seeded random order.

Time stands still while anything is ready and jumps to the next timer when nothing is, so hours
pass in milliseconds and the same seed gives the same run. Work belongs to the `Process` in whose
context it was started; a killed process never runs another instruction, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class Process:
    """Everything that dies together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.parked: list[asyncio.Handle] = []

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that belongs to this process, and whatever that starts in turn."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def kill(self) -> None:
        """Nothing of it runs from now on (SIGKILL)."""
        self.alive = False
        self.frozen = False

    def freeze(self) -> None:
        """Nothing of it runs until `thaw` (SIGSTOP)."""
        self.alive, self.frozen = False, True

    def thaw(self) -> None:
        """Go on, unless it was killed meanwhile (SIGCONT)."""
        if self.frozen:
            self.alive, self.frozen = True, False
            self.requeue()

    def requeue(self) -> None:
        """Make ready what came due while nothing ran."""
        loop: Any = asyncio.get_running_loop()
        loop._ready.extend(self.parked)
        self.parked.clear()


#: Turns of the loop in one instant of virtual time.
MOST_TURNS = 20_000

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(Exception):
    """Nothing is ready and no timer is set: the run would wait for ever."""


class Livelock(Exception):
    """Something runs for ever while time stands still."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Only `call_soon`, timers, futures and tasks; no I/O, no threads. `rng` None: in order."""

    def __init__(self, rng: random.Random | None = None) -> None:
        super().__init__()
        self._rng = rng
        self._now = 0.0
        self._turns = 0
        self.faults: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.faults.append(context))
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._now

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        context = options.get("context")
        process = (context.get(PROCESS) if context is not None else None) or PROCESS.get()
        if process is not None:
            process.tasks.add(task)
            task.add_done_callback(process.tasks.discard)
        return task

    def _run_once(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        ready: Any = self._ready  # type: ignore[attr-defined]
        while scheduled and scheduled[0].cancelled():
            self._take_timer()
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not scheduled:
                raise Stuck
            self._now = max(self._now, scheduled[0].when())
            self._turns = 0
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise Livelock
        while scheduled and scheduled[0].when() <= self._now:
            timer = self._take_timer()
            if not timer.cancelled():
                ready.append(timer)
        turn = list(ready)
        ready.clear()
        if self._rng is not None and len(turn) > 1:
            self._rng.shuffle(turn)
        for handle in turn:
            process = handle._context.get(PROCESS)
            if process is not None and not process.alive:
                process.parked.append(handle)
            elif not handle.cancelled():
                handle._run()

    def _take_timer(self) -> asyncio.TimerHandle:
        timer: asyncio.TimerHandle = heapq.heappop(self._scheduled)  # type: ignore[attr-defined]
        timer._scheduled = False  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # dropped when its time comes

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def bury(self, process: Process) -> None:
        """Let the tasks of a killed process end by cancellation, once nobody looks any more."""
        process.alive = True
        process.requeue()
        for _ in range(20):
            waiting = tuple(process.tasks)
            if not waiting:
                return
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting, timeout=1)


def run_virtual(work: Callable[[], Coroutine[Any, Any, T]], seed: int | None = None) -> T:
    """Run to the end in virtual time; whatever a callback or a lost task raised is raised here."""
    loop = VirtualLoop(None if seed is None else random.Random(seed))
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            result = runner.run(work())
        for fault in loop.faults:
            raise AssertionError(fault.get("message")) from fault.get("exception")
        return result
    finally:
        loop.close()
