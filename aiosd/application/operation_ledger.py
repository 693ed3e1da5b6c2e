"""Load, apply, commit, wake, for runtime operations: the only place that commits their changes.

Like Ledger for tasks. Operations that can still change are kept in memory: they are few, bounded
per instance, and whoever gives them out asks for all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakValueDictionary

from aiosd.application.alarm import Alarm
from aiosd.application.errors import Full, OperationNotFound, OutcomeUnknown
from aiosd.application.ports import (
    CommitConflict,
    CommitUnknown,
    ReadFailed,
    Runtimes,
    Store,
    StoreFull,
)
from aiosd.application.writes import AppendOperationEvents, PutOperation, Write
from aiosd.domain.operation_lifecycle import OperationDraft

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from aiosd.application.ports import Clock
    from aiosd.application.wakeups import Wakeups
    from aiosd.domain.operation import Operation

T = TypeVar("T")

TRIES = 5
RETRY_MS = 200


class RuntimeStore(Store, Runtimes, Protocol):
    """One adapter behind both ports."""


class OperationLedger:
    """Operations as they are and how they change."""

    def __init__(self, store: RuntimeStore, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._active: dict[str, Operation] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._observers: list[Callable[[Operation | None, OperationDraft], None]] = []
        self._running: set[asyncio.Task[object]] = set()
        #: Asked before each commit what must become durable together with it.
        self.recorder: Callable[[Operation | None, OperationDraft], Sequence[Write]] | None = None

    def observe(self, observer: Callable[[Operation | None, OperationDraft], None]) -> None:
        """Be told of every commit, in commit order per operation, before its caller is."""
        self._observers.append(observer)

    async def begin(self) -> None:
        """Read what can still change."""
        self._active = {one.id: one for one in await self._store.active_operations()}

    def active(self) -> Iterable[Operation]:
        """Every operation that is not terminal, oldest first."""
        return tuple(self._active.values())

    async def load(self, operation_id: str) -> Operation | None:
        """The operation as last committed."""
        return self._active.get(operation_id) or await self._store.operation(operation_id)

    async def insert(self, draft: OperationDraft, extra: Sequence[Write] = ()) -> Operation:
        """Commit a new operation. CommitConflict passes through: a key of `extra` is taken."""
        await self._shielded(self._commit(None, draft, extra))
        return draft.operation

    async def change(
        self,
        operation_id: str,
        command: Callable[[OperationDraft], T],
        extra: Sequence[Write] = (),
    ) -> tuple[Operation, T]:
        """Apply `command` and commit what it did; a refusal passes through.

        Raises OperationNotFound, OutcomeUnknown, Full. A command that changes nothing commits
        nothing.
        """
        return await self._shielded(self._change(operation_id, command, extra))

    async def apply(
        self, operation_id: str, command: Callable[[OperationDraft], T]
    ) -> tuple[Operation, T] | None:
        """As `change`, until it is known to be stored; None if there is no such operation.

        `command` must do nothing when it is applied again after it was stored.
        """
        while True:
            try:
                return await self.change(operation_id, command)
            except OperationNotFound:
                return None
            except (OutcomeUnknown, Full, ReadFailed):
                await self.rest()

    async def rest(self) -> None:
        """Give a store that failed a moment."""
        await Alarm(self._clock).sleep(self._clock.now() + RETRY_MS)

    async def settle(self) -> None:
        """Wait for changes under way; used when the daemon stops."""
        while self._running:
            await asyncio.wait(tuple(self._running))

    # --- inside -----------------------------------------------------------------------------------

    async def _shielded(self, work: Coroutine[object, object, T]) -> T:
        """What was begun is finished when the caller goes away (E10)."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Nobody waits any more: a refusal then is nobody's to read.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def _change(
        self,
        operation_id: str,
        command: Callable[[OperationDraft], T],
        extra: Sequence[Write],
    ) -> tuple[Operation, T]:
        lock = self._locks.setdefault(operation_id, asyncio.Lock())
        async with lock:
            for _ in range(TRIES):
                before = await self.load(operation_id)
                if before is None:
                    raise OperationNotFound
                draft = OperationDraft(before, self._clock.now())
                value = command(draft)
                if not draft.revised:
                    return before, value
                try:
                    await self._commit(before, draft, extra)
                except CommitConflict:
                    await self._reload(operation_id)
                    continue
                return draft.operation, value
        raise OutcomeUnknown

    async def _commit(
        self, before: Operation | None, draft: OperationDraft, extra: Sequence[Write]
    ) -> None:
        operation = draft.operation
        writes: list[Write] = [PutOperation(operation, before.revision if before else 0)]
        if draft.events:
            writes.append(AppendOperationEvents(operation.id, tuple(draft.events)))
        if self.recorder is not None:
            writes += self.recorder(before, draft)
        try:
            await self._store.commit([*writes, *extra])
        except CommitUnknown:
            await self._reload(operation.id)
            raise OutcomeUnknown from None
        except StoreFull:
            raise Full("the store is full") from None
        self._publish(before, draft)

    def _publish(self, before: Operation | None, draft: OperationDraft) -> None:
        self._remember(draft.operation)
        for observer in self._observers:
            observer(before, draft)
        self._wakeups.notify(draft.operation.id)

    async def _reload(self, operation_id: str) -> None:
        """Read what became of it; tells observers as if it had been known at once."""
        while True:
            try:
                found = await self._store.operation(operation_id)
            except (ReadFailed, CommitUnknown):
                await self.rest()
                continue
            if found is None:
                self._active.pop(operation_id, None)
            elif found != self._active.get(operation_id):
                self._publish(found, OperationDraft(found, self._clock.now()))
            return

    def _remember(self, operation: Operation) -> None:
        if operation.terminal:
            self._active.pop(operation.id, None)
        else:
            self._active[operation.id] = operation
