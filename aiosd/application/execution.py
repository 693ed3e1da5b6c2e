"""What providers report, and what they are told because of what happened to their tasks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from aiosd.application.errors import TaskNotFound
from aiosd.application.inbox import Inbox
from aiosd.application.messages import (
    AuthGranted,
    Cancel,
    ContinuedAttempt,
    Go,
    Input,
    Pause,
    Refused,
    Resume,
    Welcome,
)
from aiosd.application.sessions import Held, Session
from aiosd.domain import lifecycle, waits
from aiosd.domain.errors import ArgumentInvalid, Refusal
from aiosd.domain.failure import TIMEOUT
from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiosd.application.credentials import Credentials
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.messages import HeldAttempt, Hello, ProviderLink, Report
    from aiosd.application.operating import Operating
    from aiosd.application.ports import Clock
    from aiosd.application.reporting import Reporting
    from aiosd.application.scheduler import Scheduler
    from aiosd.application.sessions import Sessions
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task


class Execution:
    """The daemon's side of every attempt."""

    def __init__(
        self,
        ledger: Ledger,
        sessions: Sessions,
        scheduler: Scheduler,
        reporting: Reporting,
        credentials: Credentials,
        operating: Operating,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._ledger = ledger
        self._sessions = sessions
        self._scheduler = scheduler
        self._reporting = reporting
        self._credentials = credentials
        self._operating = operating
        self._clock = clock
        self._limits = limits
        self._inboxes: dict[tuple[str, str], Inbox] = {}
        self._running: set[asyncio.Task[None]] = set()

    # --- attaching --------------------------------------------------------------------------------

    async def attach(self, hello: Hello, principal: str, link: ProviderLink) -> Session:
        """Open a session, or go on with one; answers Welcome on the link."""
        known = self._sessions.get(hello.session_id)
        if known is not None:
            self._scheduler.withdraw_all(known)  # offers of a stream before
        session = self._sessions.attach(hello, principal, link)
        reattached = await self._operating.attach(session, hello)
        again: list[tuple[HeldAttempt, Held, int]] = []
        for claim in hello.attempts:
            task = await self._ledger.load(claim.task_id)
            mine = task is not None and task.attempt.holder == session.id
            mine = mine and task is not None and task.attempt.number == claim.attempt
            held = session.held.get(claim.task_id)
            if held is not None and held.attempt != claim.attempt:
                continue
            if held is None and mine:
                held = session.held[claim.task_id] = Held(claim.task_id, claim.attempt, go=True)
            if held is not None and task is not None:
                held.running = not mine or task.state is TaskState.WORKING
                # Not mine yet: the accept is being stored, and Go follows it.
                again.append((claim, held, task.attempt.reports if mine else 0))
        continued = (ContinuedAttempt(one.task_id, one.attempt, to) for one, _, to in again)
        welcome = Welcome(
            self._limits.heartbeat_interval_ms,
            self._limits.lease_ms,
            tuple(continued),
            reattached.continued,
        )
        if not session.welcome(link, welcome):
            return session
        claimed = {claim.task_id for claim, _, _ in again}
        for held in [one for one in session.held.values() if one.task_id not in claimed]:
            await self._lose(session, held)  # the provider does not know of it any more
        for claim, held, _ in again:
            await self._catch_up(session, claim, held)
        await self._operating.catch_up(session, reattached)
        self._scheduler.ring()
        return session

    async def _catch_up(self, session: Session, claim: HeldAttempt, held: Held) -> None:
        """Say again what the provider may have missed."""
        task = await self._ledger.load(claim.task_id)
        if session.held.get(claim.task_id) is not held:
            session.send(Cancel(claim.task_id, claim.attempt, "fenced", 0))
            return
        if task is None or task.attempt.holder != session.id:
            return  # the accept is still being stored
        if not claim.started:
            held.go = True
            session.send(Go(task.id, held.attempt))
        if task.state is TaskState.PAUSED or held.pause is not None:
            session.send(Pause(task.id, held.attempt))
        elif claim.paused:
            session.send(Resume(task.id, held.attempt))
        if claim.waiting_action and task.state is TaskState.WORKING:
            await self._answer_again(session, task, claim.waiting_action)

    async def _answer_again(self, session: Session, task: Task, action: str) -> None:
        attempt = task.attempt.number
        # An earlier attempt may have asked the same; this one's question is not stored yet then.
        for answer in task.answers:
            if (answer.action, answer.attempt) == (action, attempt):
                session.send(Input(task.id, attempt, action, answer.input))
        granted = task.granted
        if granted is None or (granted.action, granted.attempt) != (action, attempt):
            return
        credential = self._credentials.get(task.id)
        if credential is not None:
            session.send(AuthGranted(task.id, attempt, action, credential))
        else:
            until = self._clock.now() + granted.timeout_ms if granted.timeout_ms else 0
            await self._apply(task.id, lambda draft: waits.ask_again(draft, until))

    async def detach(self, session: Session) -> None:
        """An end in order: what runs is lost all the same, what stood still keeps its state."""
        self._sessions.forget(session)
        session.link = None
        await self.lose(session, lifecycle.leave)

    def disconnect(self, session: Session, link: ProviderLink) -> None:
        """The stream ended without Detach: its lease runs on (E09)."""
        if session.link is link:
            self._sessions.disconnect(session, link)
            self._scheduler.withdraw_all(session)

    async def lose(self, session: Session, end: Callable[[Draft], None] = lifecycle.lose) -> None:
        """The session is over: decide about each attempt that it held (I16-I18)."""
        self._scheduler.withdraw_all(session)
        for held in tuple(session.held.values()):
            await self._lose(session, held, end)
        await self._operating.lose(session)
        self._scheduler.ring()

    async def _lose(
        self, session: Session, held: Held, end: Callable[[Draft], None] = lifecycle.lose
    ) -> None:
        inbox = self._inboxes.get((session.id, held.task_id))
        if inbox is not None and inbox.work is not None:
            await asyncio.wait((inbox.work,))  # what was reported in time counts
        if session.held.get(held.task_id) is held:
            del session.held[held.task_id]
        self._inboxes.pop((session.id, held.task_id), None)

        def command(draft: Draft) -> None:
            attempt = draft.task.attempt
            if attempt.holder != session.id or attempt.number != held.attempt:
                return
            if held.go:
                end(draft)
            else:
                lifecycle.requeue(draft, "provider lost before the go-ahead")

        await self._apply(held.task_id, command)

    async def _apply(self, task_id: str, command: Callable[[Draft], None]) -> None:
        """Apply until its outcome is known; a refusal means that there was nothing to do."""
        with suppress(Refusal):
            await self._ledger.insist(task_id, command)

    def accept(self, session: Session, task_id: str, attempt: int) -> None:
        """A provider takes an offer; its stream is read on while the start is stored."""
        self._spawn(self._scheduler.accept(session, task_id, attempt))

    def reject(
        self, session: Session, task_id: str, attempt: int, *, busy: bool, reason: str
    ) -> None:
        """A provider declines an offer; its stream is read on while that is stored."""
        self._spawn(self._scheduler.reject(session, task_id, attempt, busy=busy, reason=reason))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def change_credits(self, session: Session, credits: int) -> None:
        """A provider can hold more or fewer attempts."""
        if credits < 0:
            raise ArgumentInvalid("credits", "must not be negative")
        session.credits = credits
        self._scheduler.ring()

    # --- reports ----------------------------------------------------------------------------------

    async def report(self, session: Session, report: Report) -> None:
        """Take a report in; it is stored, acknowledged or refused in the order of its attempt.

        Waits while the attempt has more reports waiting than the inbox may hold.
        """
        key = (session.id, report.task_id)
        inbox = self._inboxes.get(key)
        if inbox is None:
            inbox = self._inboxes[key] = Inbox(self._reporting, session, report.task_id)
        if not await inbox.put(report):
            why = "too many reports wait for the task to go on"
            session.send(
                Refused(report.task_id, report.attempt, report.number, "TASK_STATE_INVALID", why)
            )
            return
        if inbox.work is None and not inbox.parked:
            self._drain(key, inbox)

    def _drain(self, key: tuple[str, str], inbox: Inbox) -> None:
        inbox.parked = False
        inbox.work = asyncio.ensure_future(self._drained(key, inbox))

    async def _drained(self, key: tuple[str, str], inbox: Inbox) -> None:
        try:
            await inbox.drain()
        finally:
            inbox.work = None
            if inbox.empty and self._inboxes.get(key) is inbox:
                del self._inboxes[key]

    # --- consequences -----------------------------------------------------------------------------

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Tell the holder what was decided about its attempt (Ledger observer)."""
        if before is None or not before.held:
            return
        session = self._sessions.get(before.attempt.holder)
        if session is None:
            return
        task = draft.task
        held = session.held.get(task.id)
        if held is not None and held.attempt == before.attempt.number:
            self._tell(session, held, before, draft)
        parked = self._inboxes.get((session.id, task.id))
        if parked is not None and parked.parked and parked.work is None:
            self._drain((session.id, task.id), parked)

    def _tell(self, session: Session, held: Held, before: Task, draft: Draft) -> None:
        task = draft.task
        if task.attempt.holder != session.id:
            session.held.pop(task.id, None)
            if draft.reporter != session.id:
                late = task.failure is not None and task.failure.code == TIMEOUT
                self._stop(session, held, "timeout" if late else "canceled")
            self._scheduler.ring()
            return
        held.running = task.state is TaskState.WORKING
        if task.state is TaskState.PAUSED:
            held.pause = None
        if task.state is not TaskState.WORKING or before.state is TaskState.WORKING:
            return
        if before.state is TaskState.PAUSED:
            session.send(Resume(task.id, held.attempt))
        elif before.state is TaskState.INPUT_REQUIRED and before.interruption is not None:
            action = before.interruption.action
            for answer in task.answers:
                if answer.action == action:
                    session.send(Input(task.id, held.attempt, action, answer.input))
        elif before.state is TaskState.AUTH_REQUIRED and before.interruption is not None:
            credential = self._credentials.get(task.id)
            if credential is not None:
                session.send(
                    AuthGranted(task.id, held.attempt, before.interruption.action, credential)
                )

    def _stop(self, session: Session, held: Held, reason: str) -> None:
        """Ask, and after the grace count the executor as fenced (X10, H03)."""
        grace = self._limits.cancel_grace_ms
        session.send(Cancel(held.task_id, held.attempt, reason, grace))
        session.stopping.add((held.task_id, held.attempt))
        asyncio.get_running_loop().call_later(
            grace / 1000, self.stopped, session, held.task_id, held.attempt
        )

    def stopped(self, session: Session, task_id: str, attempt: int) -> None:
        """The executor of an ended attempt is gone, or is not waited for any longer."""
        if (task_id, attempt) in session.stopping:
            session.stopping.discard((task_id, attempt))
            self._scheduler.ring()

    # --- pausing ----------------------------------------------------------------------------------

    async def ask_to_pause(self, task_id: str, reason: str) -> bool:
        """Ask the holder to stop at a checkpoint; False if nobody runs it at the moment."""
        task = await self._ledger.load(task_id)
        if task is None:
            raise TaskNotFound
        session = self._sessions.get(task.attempt.holder) if task.held else None
        held = session.held.get(task_id) if session is not None else None
        if session is None or held is None:
            return False
        held.pause = reason
        session.send(Pause(task_id, held.attempt))
        return True

    async def unpause(self, task_id: str) -> None:
        """The pause was not answered in time: it is off."""
        task = await self._ledger.load(task_id)
        session = self._sessions.get(task.attempt.holder) if task is not None else None
        held = session.held.get(task_id) if session is not None else None
        if session is not None and held is not None and held.pause is not None:
            held.pause = None
            session.send(Resume(task_id, held.attempt))
