"""The provider's side of one attempt: its numbered reports, its pauses, its answers, its end.

Everything here runs on the event loop that runs the capability.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import logging
from typing import TYPE_CHECKING, Any

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk.errors import ReportRefused
from aiosd.sdk.outbox import NotHeld

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from aiosd.sdk.outbox import Outbox

log = logging.getLogger("aiosd.sdk")

MOST_UNANSWERED = 1000
"""Reports of one attempt that may be on their way; the next one waits (back-pressure)."""


class Attempt:
    """An attempt that was offered. `spawn` runs a coroutine beside it."""

    def __init__(
        self,
        offer: wire.Offer,
        outbox: Outbox,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.offer = offer
        self.key = (offer.task.task_id, offer.attempt)
        self.begin: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """True: Go arrived. False: it never will."""
        self.work: asyncio.Task[Any] | None = None
        self.cancel_reason = ""
        """canceled, timeout or fenced once Cancel arrived."""
        self.cancel_arrived = asyncio.Event()
        self.ignores_cancel = False
        self.lost = False
        """It belongs to somebody else, or to nobody: whatever it reports is void."""
        self.pause_callbacks: list[Callable[[], Any]] = []
        self.resume_callbacks: list[Callable[[], Any]] = []
        self._outbox = outbox
        self._spawn = spawn
        self._unanswered: dict[int, asyncio.Future[None] | None] = {}
        self._answered = asyncio.Event()
        self._expected: dict[str, asyncio.Future[Any]] = {}
        self._turn = asyncio.Lock()
        self._standing = False
        self._stopped_others = False
        self._paused_number = 0
        self._pause_wanted = asyncio.Event()
        self._running = asyncio.Event()
        self._running.set()

    # --- reports ----------------------------------------------------------------------------

    async def tell(self, report: wire.Report) -> None:
        """Send without waiting for the answer; void for an attempt that is not held any more."""
        await self._wait_for_room()
        with contextlib.suppress(NotHeld):
            self._unanswered[self._outbox.report(self.key, report)] = None

    async def post(self, report: wire.Report) -> asyncio.Future[None]:
        """Send; the future is done when it is stored, and raises ReportRefused."""
        await self._wait_for_room()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._unanswered[self._outbox.report(self.key, report)] = future
        except NotHeld:
            future.set_exception(_not_held())
        return future

    async def deliver(self, report: wire.Report) -> None:
        """Send and wait until it is stored. Raises ReportRefused."""
        await (await self.post(report))

    def acknowledge(self, up_to: int) -> None:
        """Reports up to a number are stored."""
        for number in list(itertools.takewhile(lambda one: one <= up_to, self._unanswered)):
            future = self._unanswered.pop(number)
            if future is not None and not future.done():
                future.set_result(None)
        self._answered.set()

    def refuse(self, refused: wire.Refused) -> None:
        """A report was refused."""
        future = self._unanswered.pop(refused.number, None)
        self._answered.set()
        if future is not None and not future.done():
            future.set_exception(ReportRefused(refused.reason, refused.message))
        else:
            log.info(
                "report.refused task_id=%s attempt=%s number=%s reason=%s",
                *self.key,
                refused.number,
                refused.reason,
            )
        if refused.number == self._paused_number:
            # The task is not paused, so nobody will ever resume it.
            self._spawn(self._go_on(answer=False))
        if refused.reason == "ATTEMPT_FENCED":
            self.lose(grace_s=0)

    async def _wait_for_room(self) -> None:
        while len(self._unanswered) >= MOST_UNANSWERED and not self.lost:
            self._answered.clear()
            await self._answered.wait()

    # --- answers ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def expect(self, action: str) -> Iterator[asyncio.Future[Any]]:
        """The answer to a question that is about to be asked. Raises ValueError for a second
        question of the same action at the same time."""
        if action in self._expected:
            raise ValueError(f"action: {action!r} already waits for its answer")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._expected[action] = future
        self._outbox.set_waiting(self.key, action)
        self._standing = True
        try:
            yield future
        finally:
            del self._expected[action]
            future.cancel()
            self._standing = bool(self._expected)
            self._outbox.set_waiting(self.key, next(iter(self._expected), ""))

    def answer(self, action: str, value: Any) -> None:
        """The answer arrived; one that nobody waits for is dropped (it was sent again)."""
        future = self._expected.get(action)
        if future is not None and not future.done():
            future.set_result(value)

    # --- pause and resume -------------------------------------------------------------------

    # The two commands take turns, in the order of their arrival, since callbacks may take long.

    def pause(self) -> None:
        """Stop at the next checkpoint."""
        self._spawn(self._stand())

    def resume(self) -> None:
        """Go on."""
        self._spawn(self._go_on(answer=True))

    async def checkpoint(self) -> None:
        """Return at once, or stand still while paused."""
        while self._pause_wanted.is_set():
            if not self.pause_callbacks:
                self._report_paused()
            await self._running.wait()
        # A loop of checkpoints alone must still let Cancel and Pause in.
        await asyncio.sleep(0)

    async def sleep(self, duration_s: float) -> None:
        """Wait; time that is spent paused does not count."""
        loop = asyncio.get_running_loop()
        while True:
            await self.checkpoint()
            began = loop.time()
            try:
                async with asyncio.timeout(duration_s):
                    await self._pause_wanted.wait()
            except TimeoutError:
                return
            duration_s = max(0.0, duration_s - (loop.time() - began))

    async def _stand(self) -> None:
        async with self._turn:
            if self._pause_wanted.is_set():  # sent again after a new stream
                return
            self._pause_wanted.set()
            self._running.clear()
            if self.pause_callbacks:
                self._stopped_others = True
                if not await self._call(self.pause_callbacks):
                    await self._release()
                    return
                self._report_paused()
            elif self._standing:
                self._report_paused()

    async def _go_on(self, *, answer: bool) -> None:
        async with self._turn:
            await self._release(answer=answer)

    async def _release(self, *, answer: bool = False) -> None:
        if self._stopped_others:
            self._stopped_others = False
            await self._call(self.resume_callbacks)
        self._paused_number = 0
        self._outbox.set_paused(self.key, False)
        if answer:
            await self.tell(wire.Report(resumed=wire.Resumed()))
        self._pause_wanted.clear()
        self._running.set()

    def _report_paused(self) -> None:
        if self._paused_number:
            return
        with contextlib.suppress(NotHeld):
            self._outbox.set_paused(self.key, True)
            self._paused_number = self._outbox.report(self.key, wire.Report(paused=wire.Paused()))
            self._unanswered[self._paused_number] = None

    async def _call(self, callbacks: list[Callable[[], Any]]) -> bool:
        try:
            for callback in callbacks:
                result = callback()
                if inspect.isawaitable(result):
                    await result
        except Exception:
            log.exception("capability.callback_failed task_id=%s attempt=%s", *self.key)
            return False
        return True

    # --- the end ----------------------------------------------------------------------------

    def cancel(self, reason: str, grace_s: float) -> None:
        """Stop for good, and say so."""
        if self.cancel_reason:  # sent again after a new stream
            return
        self.cancel_reason = reason or "canceled"
        self.cancel_arrived.set()
        self._stop(grace_s)

    @property
    def void(self) -> bool:
        """Nothing will come of it, though its code may still be stopping."""
        return self.lost or (self.begin.done() and not self.begin.result())

    def withdraw(self) -> None:
        """The offer is void; without effect once Go arrived."""
        if not self.begin.done():
            self.begin.set_result(False)

    def lose(self, grace_s: float) -> None:
        """Stop for good and say nothing: it is not ours any more."""
        if self.lost:
            return
        self.lost = True
        self._outbox.drop(self.key)
        for future in self._unanswered.values():
            if future is not None and not future.done():
                future.set_exception(_not_held())
        self._unanswered.clear()
        self._answered.set()
        self._stop(grace_s)

    def _stop(self, grace_s: float) -> None:
        self.withdraw()
        if self.work is not None and not self.work.done() and not self.ignores_cancel:
            self.work.cancel()
            asyncio.get_running_loop().call_later(grace_s, self._abandon)

    def _abandon(self) -> None:
        # Canceled is not claimed before it is true, however long that takes.
        if self.work is not None and not self.work.done():
            log.error("capability.abandoned task_id=%s attempt=%s: it does not stop", *self.key)


def _not_held() -> ReportRefused:
    return ReportRefused("ATTEMPT_FENCED", "the attempt is not held any more")
