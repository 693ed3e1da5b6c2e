"""Which task starts next, and the handshake that starts it (design.md 7, 8).

Strict priority, then creation; a task whose tool is at its cap is skipped (X40). An offer lives
in memory only: until the accept is stored nothing has happened (I14).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiosd.application.errors import Full, OutcomeUnknown
from aiosd.application.messages import Cancel, Go, Offer, OfferWithdrawn
from aiosd.application.ports import ReadFailed
from aiosd.application.sessions import Held, Session
from aiosd.application.windows import Windows
from aiosd.domain import lifecycle, waits
from aiosd.domain.errors import Refusal
from aiosd.domain.state import TaskState
from aiosd.domain.task import Phase, Task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.ports import Queue
    from aiosd.application.sessions import Sessions
    from aiosd.application.slots import Slots
    from aiosd.domain.draft import Draft

Order = tuple[int, int, str]
REST_SECONDS = 0.25


@dataclass(slots=True)
class OnOffer:
    """An offer that a provider has not answered, or whose accept is being stored."""

    task: Task
    session: Session
    attempt: int
    timer: asyncio.TimerHandle
    accepted: bool = False


class Scheduler:
    """Matches queued work with slots and providers."""

    def __init__(
        self, queue: Queue, ledger: Ledger, sessions: Sessions, slots: Slots, limits: Limits
    ) -> None:
        self._ledger = ledger
        self._sessions = sessions
        self._slots = slots
        self._limits = limits
        self._windows = Windows(queue)
        self._offers: dict[str, OnOffer] = {}
        #: Accepted to go on, waiting for a slot (X08): id -> (order, tool).
        self._resuming: dict[str, tuple[Order, str]] = {}
        #: In WORKING without an attempt: id -> (order, capability). They hold their slot.
        self._retrying: dict[str, tuple[Order, str]] = {}
        #: Sessions that let an offer of this task pass; others are tried first (H12).
        self._avoid: dict[str, frozenset[str]] = {}
        #: Nobody could be offered these just now; they are looked at again at the next ring.
        self._aside: dict[str, Task] = {}
        #: Says what a task that may be offered is, None for one that may not (Permissions.admit).
        self.admit: Callable[[Task], Awaitable[Task | None]] | None = None
        self._bell = asyncio.Event()
        self._stopping = False

    def ring(self) -> None:
        """Something changed: look again."""
        self._bell.set()

    def stop(self) -> None:
        """Offer nothing any more."""
        self._stopping = True

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Follow tasks in and out of the queue (Ledger observer)."""
        del before
        self.place(draft.task)

    def place(self, task: Task) -> None:
        """Note a task as its state and phase say, and look for work."""
        self._windows.follow(task)
        self._resuming.pop(task.id, None)
        self._retrying.pop(task.id, None)
        if task.phase is Phase.RESUME_PENDING:
            self._resuming[task.id] = (task.order, task.request.tool_id)
        elif task.state is TaskState.WORKING and task.phase is Phase.QUEUED:
            self._retrying[task.id] = (task.order, task.request.capability_id)
        if task.terminal:
            self._avoid.pop(task.id, None)
            self._aside.pop(task.id, None)
            if task.id in self._offers and not self._offers[task.id].accepted:
                self.withdraw(task.id)
        self.ring()

    async def run(self) -> None:
        """Dispatch whatever can be dispatched, each time the bell rings."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            aside, self._aside = self._aside, {}
            for task in aside.values():
                self._return(task)
            try:
                while not self._stopping and await self._dispatch_one():
                    pass
            except ReadFailed:
                asyncio.get_running_loop().call_later(REST_SECONDS, self.ring)

    # --- choosing ---------------------------------------------------------------------------------

    async def _dispatch_one(self) -> bool:
        candidates: list[tuple[Order, str]] = []
        for task_id, (order, tool) in self._resuming.items():
            if self._slots.free(tool):
                candidates.append((order, task_id))
        offered = self._sessions.offered()
        on_offer = {*self._offers, *self._aside}
        for task_id, (order, capability_id) in self._retrying.items():
            if capability_id in offered and task_id not in on_offer:
                candidates.append((order, task_id))
        for capability_id in sorted(offered):
            head = await self._windows.head(capability_id, on_offer)
            if head is not None and self._slots.free(head[1]):
                candidates.append((head[0], head[0][2]))
        if not candidates:
            return False
        _, task_id = min(candidates)
        if task_id in self._resuming:
            return await self._resume(task_id)
        return await self._offer(task_id)

    async def _resume(self, task_id: str) -> bool:
        task = await self._ledger.load(task_id)
        if task is not None and not self._slots.reserve(task):
            return True  # somebody was faster; it is no candidate until a slot is free
        self._resuming.pop(task_id, None)
        if task is not None:
            try:
                await self._ledger.insist(task_id, waits.take_slot)
            finally:
                self._slots.release(task_id)
        return True

    async def _offer(self, task_id: str) -> bool:
        task = await self._ledger.load(task_id)
        self._retrying.pop(task_id, None)
        if task is None:
            return True
        capability_id = task.request.capability_id
        self._windows.take(task_id, capability_id)
        admitted = await self._admitted(task) if _queued(task) else None
        if admitted is None or not _queued(admitted):
            return True
        task = admitted
        avoid = self._avoid.get(task_id, frozenset())
        session = self._sessions.available(capability_id, task_id, avoid)
        if session is None or not self._slots.reserve(task):
            self._aside[task_id] = task
            return True  # another one may be left
        timer = asyncio.get_running_loop().call_later(
            self._limits.offer_timeout_ms / 1000, self._unanswered, task_id
        )
        attempt = task.attempt.number + 1
        self._offers[task_id] = OnOffer(task, session, attempt, timer)
        session.offers.add(task_id)
        session.send(Offer(task, attempt, task.attempt.checkpoint, task.answers))
        return True

    async def _admitted(self, task: Task) -> Task | None:
        if self.admit is None:
            return task
        try:
            return await self.admit(task)
        except (OutcomeUnknown, Full, ReadFailed):
            self._return(await self._ledger.resolve(task.id) or task)
            raise ReadFailed("the store did not take it just now") from None

    # --- the handshake ----------------------------------------------------------------------------

    def _unanswered(self, task_id: str) -> None:
        offer = self._offers.get(task_id)
        if offer is not None and not offer.accepted:
            session = offer.session
            self._shun(task_id, session)
            session.owed.add(task_id)
            asyncio.get_running_loop().call_later(
                self._limits.lease_ms / 1000, self._answered, session, task_id
            )
            self.withdraw(task_id)

    def _answered(self, session: Session, task_id: str) -> None:
        """An answer came, or is not waited for any longer: it may be offered the task again."""
        if task_id in session.owed:
            session.owed.discard(task_id)
            self.ring()

    def withdraw(self, task_id: str) -> None:
        """Void an offer; the task is queued as before."""
        offer = self._end_offer(task_id)
        if offer is not None:
            offer.session.send(OfferWithdrawn(task_id, offer.attempt))
            self._return(offer.task)

    def withdraw_all(self, session: Session) -> None:
        """The session's stream ended: what it was offered goes elsewhere."""
        for task_id in sorted(session.offers):
            if not self._offers[task_id].accepted:
                self.withdraw(task_id)

    async def accept(self, session: Session, task_id: str, attempt: int) -> None:
        """A provider takes an offer: store the start, then let it go."""
        self._answered(session, task_id)
        offer = self._offers.get(task_id)
        valid = offer is not None and offer.session is session and offer.attempt == attempt
        if offer is None or not valid:
            self._accepted_again(session, task_id, attempt)
            return
        if offer.accepted:
            return  # said twice; the first is being stored
        offer.accepted = True
        offer.timer.cancel()
        # Held before the commit, so that observers of the start find its owner.
        held = session.held[task_id] = Held(task_id, attempt)
        try:
            await self._ledger.change(task_id, lambda draft: lifecycle.start(draft, session.id))
        except (Full, ReadFailed):
            self._shun(task_id, session)
        except Refusal:
            pass  # canceled meanwhile, or not known yet; seen below
        task = await self._ledger.resolve(task_id)
        started = task is not None and task.attempt.holder == session.id
        started = started and task is not None and task.attempt.number == attempt
        self._end_offer(task_id)
        if started and session.held.get(task_id) is held:
            if session.connected:
                held.go = True
                session.send(Go(task_id, attempt))
            return
        if session.held.get(task_id) is held:
            del session.held[task_id]
        session.send(OfferWithdrawn(task_id, attempt))
        if started:
            await self._take_back(session, task_id, attempt, "provider lost before the go-ahead")
        await self._look_again(task_id)

    def _accepted_again(self, session: Session, task_id: str, attempt: int) -> None:
        """An accept without an offer: said twice, or too late."""
        held = session.held.get(task_id)
        if held is None or held.attempt != attempt:
            session.send(OfferWithdrawn(task_id, attempt))
        elif held.go:
            session.send(Go(task_id, attempt))

    async def _take_back(self, session: Session, task_id: str, attempt: int, why: str) -> None:
        """The attempt certainly did not begin: it is queued as if it had never been accepted."""

        def command(draft: Draft) -> None:
            current = draft.task.attempt
            if current.holder == session.id and current.number == attempt:
                lifecycle.requeue(draft, why)

        await self._ledger.insist(task_id, command)

    async def reject(
        self, session: Session, task_id: str, attempt: int, *, busy: bool, reason: str
    ) -> None:
        """A provider declines an offer: not now, or not at all.

        Declining what was accepted contradicts itself: the attempt ends like a lost one if its
        go-ahead may have been written.
        """
        self._answered(session, task_id)
        offer = self._offers.get(task_id)
        if offer is not None and (offer.session is not session or offer.attempt != attempt):
            return
        if offer is None or offer.accepted:
            await self._declined_after_accept(session, task_id, attempt)
            return
        self._end_offer(task_id)
        if busy:
            self._shun(task_id, session)
            self._return(offer.task)
            return
        try:
            await self._ledger.change(task_id, lambda draft: lifecycle.reject(draft, reason))
        except (Refusal, ReadFailed):
            await self._look_again(task_id)

    async def _declined_after_accept(self, session: Session, task_id: str, attempt: int) -> None:
        held = session.held.get(task_id)
        task = await self._ledger.resolve(task_id)
        if held is None or held.attempt != attempt or task is None or task.attempt.reports:
            return
        if session.held.get(task_id) is not held:
            return
        del session.held[task_id]  # a start that is still being stored is given back then
        self._shun(task_id, session)
        if not held.go:
            await self._take_back(session, task_id, attempt, "declined before it began")
            return
        session.send(Cancel(task_id, attempt, "fenced", 0))

        def command(draft: Draft) -> None:
            if (draft.task.attempt.holder, draft.task.attempt.number) == (session.id, attempt):
                lifecycle.lose(draft)

        await self._ledger.insist(task_id, command)

    def _end_offer(self, task_id: str) -> OnOffer | None:
        offer = self._offers.pop(task_id, None)
        if offer is not None:
            offer.timer.cancel()
            offer.session.offers.discard(task_id)
            self._slots.release(task_id)
            self.ring()
        return offer

    def _return(self, task: Task) -> None:
        if task.state is TaskState.SUBMITTED:
            self._windows.put_back(task)
        elif not task.terminal:
            self._retrying[task.id] = (task.order, task.request.capability_id)

    async def _look_again(self, task_id: str) -> None:
        task = await self._ledger.resolve(task_id)
        if task is not None:
            self.place(task)
            if not task.terminal and task.phase is Phase.QUEUED:
                self._return(task)

    def _shun(self, task_id: str, session: Session) -> None:
        self._avoid[task_id] = self._avoid.get(task_id, frozenset()) | {session.id}
        if not session.resting:
            session.resting = True
            asyncio.get_running_loop().call_later(REST_SECONDS, self._rested, session)

    def _rested(self, session: Session) -> None:
        session.resting = False
        self.ring()


def _queued(task: Task) -> bool:
    return not task.terminal and task.phase is Phase.QUEUED
