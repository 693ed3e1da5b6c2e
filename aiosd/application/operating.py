"""The daemon's side of every runtime operation: given out, reported on, projected, expired, lost.

One operation of an instance at a time, in the order of creation. Once RUNNING is stored the
effect may happen; from then on only the instance's word, or proof that it was never told, says
that it did not (R167, Y12).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from aiosd.application.alarm import Alarm
from aiosd.application.operation_messages import (
    CancelOperation,
    EffectCommitted,
    OperationAck,
    OperationReport,
    RunOperation,
)
from aiosd.application.operation_reports import take
from aiosd.application.ports import CommitUnknown, ReadFailed, StoreFull
from aiosd.domain import operation_lifecycle as life
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.operation import Operation, OperationStatus

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from aiosd.application.instances import Instances
    from aiosd.application.limits import Limits
    from aiosd.application.messages import Hello
    from aiosd.application.operation_ledger import OperationLedger
    from aiosd.application.ports import Clock
    from aiosd.application.projection import Projection
    from aiosd.application.sessions import Session, Sessions
    from aiosd.domain.instance import Declaration
    from aiosd.domain.operation_lifecycle import OperationDraft

#: How long an instance may correct a state that was blocked before its next operation is given.
CORRECTION_MS = 5_000
#: Reports of one operation that may wait to be stored before its stream is held back.
ROOM = 256


Inbox: TypeAlias = "asyncio.Queue[tuple[Session, OperationReport]]"


@dataclass(frozen=True, slots=True)
class Reattached:
    """What a session that attaches holds: what it says, and what the store says."""

    continued: tuple[str, ...]
    held: tuple[Operation, ...]


class Operating:
    """Gives operations to instances and takes in what becomes of them."""

    def __init__(
        self,
        ledger: OperationLedger,
        instances: Instances,
        projection: Projection,
        sessions: Sessions,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._ledger = ledger
        self._instances = instances
        self._projection = projection
        self._sessions = sessions
        self._clock = clock
        self._grace_ms = limits.cancel_grace_ms
        self._alarm = Alarm(clock)
        #: RUNNING in the store, and certainly never written to a stream.
        self._unsent: set[str] = set()
        self._inboxes: dict[str, Inbox] = {}
        self._drains: dict[str, asyncio.Task[object]] = {}
        self._running: set[asyncio.Task[object]] = set()
        ledger.observe(self._committed)

    async def recover(self, until: int) -> int:
        """After a restart: what ran waits for its session like an attempt (I19)."""
        await self._instances.load()
        await self._ledger.begin()
        expected = 0
        for operation in self._ledger.active():
            if operation.status is OperationStatus.RUNNING:
                self._sessions.expect(operation.holder, until)
                expected += 1
            elif operation.status is OperationStatus.PROJECTION_PENDING:
                self._spawn(self._projection.project(operation.id))
        return expected

    async def run(self) -> None:
        """Give out and expire, whenever something changed or a time has come."""
        while True:
            now = self._clock.now()
            for operation in self._ledger.active():
                if 0 < operation.due_time(self._grace_ms) <= now:
                    await self._pass_time(operation.id)
            await self._give_out(now)
            # From the same moment: a time that came since then is still to be acted on.
            await self._alarm.sleep(self._next_time(now))

    # --- attaching --------------------------------------------------------------------------------

    async def attach(self, session: Session, hello: Hello) -> Reattached:
        """Take up what a session is and holds, before it is welcomed."""
        held = self._held(session)
        continued = []
        for operation_id in hello.operations:
            operation = await self._ledger.load(operation_id)
            if operation is None or operation.holder != session.id:
                continue
            if operation.status is not OperationStatus.OUTCOME_UNKNOWN:
                continued.append(operation_id)
        if hello.instance is not None:
            declared = self._declare(session, hello.instance, frozenset(continued))
            if not await declared:
                self._spawn(self._declare_again(session, hello.instance))
        return Reattached(tuple(continued), held)

    async def _declare(
        self, session: Session, said: Declaration, held: frozenset[str] = frozenset()
    ) -> bool:
        """Take up the instance; False if the store failed, which must not keep a session away."""
        try:
            if await self._instances.attach(session, said):
                await self._projection.settle(said.instance_id, held)
        except (CommitUnknown, StoreFull, ReadFailed):
            return False
        return True

    async def _declare_again(self, session: Session, said: Declaration) -> None:
        while True:
            await self._ledger.rest()
            if not self._instances.is_current(session, said) or await self._declare(session, said):
                self._alarm.ring()
                return

    async def catch_up(self, session: Session, reattached: Reattached) -> None:
        """After Welcome: what the session does not know of is lost, what it may miss is said."""
        for known in reattached.held:
            # As it is now: its end, or the wish for it, may have come since.
            operation = next((one for one in self._held(session) if one.id == known.id), None)
            if operation is None:
                continue
            if operation.id in self._unsent:
                self._unsent.discard(operation.id)
                if operation.cancel_request is not None or operation.expiring:
                    await self._ledger.apply(operation.id, life.stopped)
                else:
                    session.send(_run(operation))
            elif operation.id not in reattached.continued:
                await self._ledger.apply(operation.id, life.lose)
            elif operation.cancel_request is not None or operation.expiring:
                session.send(CancelOperation(operation.id))
        self._alarm.ring()

    async def lose(self, session: Session) -> None:
        """The session is over: nobody knows what became of what it ran (R167)."""
        self._instances.lose(session)
        for operation in self._held(session):
            if (drain := self._drains.get(operation.id)) is not None:
                await asyncio.wait((drain,))  # what was reported in time counts
            given = operation.id not in self._unsent
            self._unsent.discard(operation.id)
            await self._ledger.apply(operation.id, partial(life.lose, given=given))
        self._alarm.ring()

    def _held(self, session: Session) -> tuple[Operation, ...]:
        running = OperationStatus.RUNNING
        return tuple(
            one
            for one in self._ledger.active()
            if one.status is running and one.holder == session.id
        )

    # --- giving out -------------------------------------------------------------------------------

    async def _give_out(self, now: int) -> None:
        busy: set[str] = set()
        for operation in self._ledger.active():
            instance_id = operation.request.instance_id
            if instance_id in busy or _given_up(operation, now):
                continue
            busy.add(instance_id)
            session = self._instances.session(instance_id)
            if operation.status is not OperationStatus.QUEUED or session is None:
                continue
            if session.before_welcome is None and session.credits and not session.draining:
                await self._give(operation, session)

    async def _give(self, operation: Operation, session: Session) -> None:
        method = operation.request.method
        if method not in self._instances.get(operation.request.instance_id).methods:
            code, why = "METHOD_NOT_SUPPORTED", f"the instance does not accept {method} any more"
            await self._ledger.apply(
                operation.id, lambda draft: life.refuse_dispatch(draft, code, why)
            )
            return
        done = await self._ledger.apply(operation.id, lambda draft: life.start(draft, session.id))
        if done is None or not done[1]:
            return
        if self._sessions.get(session.id) is not session:
            await self._ledger.apply(operation.id, lambda draft: life.lose(draft, given=False))
        elif session.connected:
            session.send(_run(done[0]))
        else:
            self._unsent.add(operation.id)

    def tell_of_cancel(self, operation: Operation) -> None:
        """Ask whoever runs it to stop; what nobody was told of has been stopped already."""
        session = self._sessions.get(operation.holder)
        if session is None or operation.status is not OperationStatus.RUNNING:
            return
        if operation.id in self._unsent:
            self._spawn(self._stop_unsent(operation.id))
        else:
            session.send(CancelOperation(operation.id))

    async def _stop_unsent(self, operation_id: str) -> None:
        await self._ledger.apply(operation_id, life.stopped)
        self._unsent.discard(operation_id)

    # --- reports ----------------------------------------------------------------------------------

    async def report(self, session: Session, report: OperationReport) -> None:
        """Take a report in; reports of one operation are stored in their order.

        Waits while the operation has more of them waiting than there is room for.
        """
        inbox = self._inboxes.get(report.operation_id)
        if inbox is None:
            inbox = self._inboxes[report.operation_id] = asyncio.Queue(ROOM)
            inbox.put_nowait((session, report))
            drain = self._spawn(self._drain(report.operation_id, inbox))
            self._drains[report.operation_id] = drain
            return
        session.held_back = inbox.full()
        try:
            await inbox.put((session, report))
        finally:
            session.held_back = False

    async def _drain(self, operation_id: str, inbox: Inbox) -> None:
        while not inbox.empty():
            await self._take(*inbox.get_nowait())
        del self._inboxes[operation_id], self._drains[operation_id]

    async def _take(self, session: Session, report: OperationReport) -> None:
        said, problem = report.said, ""
        try:
            done = await self._ledger.apply(
                report.operation_id, lambda draft: take(draft, session.id, report)
            )
        except ArgumentInvalid:
            if session.link is not None:
                session.link.close(session_lost=False)
            return
        if done is not None and isinstance(said, EffectCommitted):
            if done[1] and said.state:
                problem = await self._projection.follow_up(done[0], said.state)
            else:
                problem = await self._projection.project(report.operation_id)
        session.send(OperationAck(report.operation_id, report.number, problem))

    # --- inside -----------------------------------------------------------------------------------

    def _committed(self, before: Operation | None, draft: OperationDraft) -> None:
        if before is None or before.status is not draft.operation.status or not draft.events:
            self._alarm.ring()

    async def _pass_time(self, operation_id: str) -> None:
        done = await self._ledger.apply(
            operation_id, lambda draft: life.pass_time(draft, self._grace_ms)
        )
        if done is not None and done[0].expiring:
            self.tell_of_cancel(done[0])

    def _next_time(self, now: int) -> int:
        times = [0]
        for one in self._ledger.active():
            times.append(one.due_time(self._grace_ms))
            if one.status is OperationStatus.PROJECTION_BLOCKED:
                times.append(one.update_time + CORRECTION_MS)
        return min((time for time in times if time > now), default=0)

    def _spawn(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


def _given_up(operation: Operation, now: int) -> bool:
    """Its effect is there and its correction did not come: the next one need not wait for it."""
    blocked = operation.status is OperationStatus.PROJECTION_BLOCKED
    return blocked and now >= operation.update_time + CORRECTION_MS


def _run(operation: Operation) -> RunOperation:
    request = operation.request
    return RunOperation(
        operation.id,
        request.method,
        request.params,
        request.scope,
        request.target_id,
        request.expire_time,
    )
