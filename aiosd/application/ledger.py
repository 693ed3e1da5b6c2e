"""Load, apply, commit, wake: the only place that commits changes of tasks.

A change of one task runs alone: commands of the same task wait for each other, so the revision
check is there for other processes and never the normal course. The work goes on when the caller
goes away (E10); what was committed is then told to observers all the same.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakValueDictionary

from aiosd.application.alarm import Alarm
from aiosd.application.errors import Full, OutcomeUnknown, TaskNotFound
from aiosd.application.ports import CommitConflict, CommitUnknown, ReadFailed, StoreFull
from aiosd.application.writes import (
    AppendEvents,
    CutEvents,
    PutArtifact,
    PutChunk,
    PutMessage,
    PutTask,
    Write,
)
from aiosd.domain.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from aiosd.application.ports import Clock, Store
    from aiosd.application.wakeups import Wakeups
    from aiosd.domain.artifact import Artifact
    from aiosd.domain.content import Message
    from aiosd.domain.task import Task

T = TypeVar("T")

CACHED_TASKS = 2048
TRIES = 5
RECONCILE_MS = 200
#: More than one commit of one task ever holds.
MOST_EVENTS = 10_000


class Committed(Generic[T]):
    """What a change came to: the task after it and what the command returned."""

    __slots__ = ("task", "value")

    def __init__(self, task: Task, value: T) -> None:
        self.task = task
        self.value = value


class Ledger:
    """Tasks as they are and how they change."""

    def __init__(self, store: Store, clock: Clock, wakeups: Wakeups, event_retention: int) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._retention = event_retention
        self._cache: OrderedDict[str, Task] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._observers: list[Callable[[Task | None, Draft], None]] = []
        self._recorders: list[Callable[[Task | None, Draft], Awaitable[Sequence[Write]]]] = []
        self._running: set[asyncio.Task[object]] = set()
        #: Commits of unknown outcome: task id -> the task as observers know it, and the reporter.
        self._doubtful: dict[str, tuple[Task | None, str]] = {}
        self._alarm = Alarm(clock)

    def observe(self, observer: Callable[[Task | None, Draft], None]) -> None:
        """Be told of every commit, in commit order per task, before its caller is.

        The observer gets the task as it was told before (None: it is new) and the draft that was
        committed. What a commit of unknown outcome did is told as soon as it is known; a draft
        without events then says that it did nothing.
        """
        self._observers.append(observer)

    def record(self, recorder: Callable[[Task | None, Draft], Awaitable[Sequence[Write]]]) -> None:
        """Be asked, before each commit, what must become durable together with it.

        The recorder gets the task as it is (None: it is new) and the draft to be committed.
        """
        self._recorders.append(recorder)

    async def load(self, task_id: str) -> Task | None:
        """The task as last committed."""
        known = self._cache.get(task_id)
        if known is not None:
            self._cache.move_to_end(task_id)
            return known
        task = await self._store.task(task_id)
        if task is not None and task_id not in self._cache:
            self._remember(task)
        return self._cache.get(task_id, task)

    async def insert(self, draft: Draft, extra: Sequence[Write] = ()) -> Task:
        """Commit a new task. CommitConflict passes through: a key of `extra` is taken."""
        return await self._shielded(self._insert(draft, extra))

    async def change(
        self,
        task_id: str,
        command: Callable[[Draft], T],
        *,
        artifacts: bool = False,
        messages: bool = False,
        extra: Callable[[Draft], Sequence[Write]] | None = None,
        reporter: str = "",
        born: Draft | None = None,
    ) -> Committed[T]:
        """Apply `command` to the task and commit what it did; a refusal passes through.

        `artifacts` and `messages` load what the task has of them; `extra` adds writes that must
        agree with the change; `reporter` is the provider session whose word this is; `born` is a
        new task that comes into being with the change, or not at all. A command that changes
        nothing commits nothing.
        """
        return await self._shielded(
            self._change(task_id, command, artifacts, messages, extra, reporter, born)
        )

    async def insist(
        self,
        task_id: str,
        command: Callable[[Draft], T],
        *,
        artifacts: bool = False,
        messages: bool = False,
        reporter: str = "",
    ) -> Committed[T]:
        """As `change`, for what must be decided: repeated until the store takes and knows it.

        `command` must see from the task whether it was applied already.
        """
        while True:
            try:
                return await self.change(
                    task_id, command, artifacts=artifacts, messages=messages, reporter=reporter
                )
            except OutcomeUnknown:
                await self.resolve(task_id)
            except (Full, ReadFailed):
                await Alarm(self._clock).sleep(self._clock.now() + RECONCILE_MS)

    async def run(self) -> None:
        """Find out what became of commits whose outcome was unknown (E17)."""
        while True:
            await self._alarm.sleep(0 if not self._doubtful else self._clock.now() + RECONCILE_MS)
            for task_id in tuple(self._doubtful):
                await self._reconcile(task_id)

    async def resolve(self, task_id: str) -> Task | None:
        """The task once it is known what became of its last commit, however long that takes."""
        with self._wakeups.listen(task_id) as signal:
            while task_id in self._doubtful:
                signal.clear()
                await signal.wait()
        while True:
            try:
                return await self.load(task_id)
            except ReadFailed:
                await Alarm(self._clock).sleep(self._clock.now() + RECONCILE_MS)

    def forget(self, task_ids: Sequence[str]) -> None:
        """The store has deleted these; whoever follows one is told."""
        for task_id in task_ids:
            self._cache.pop(task_id, None)
            self._wakeups.notify(task_id)

    async def settle(self) -> None:
        """Wait for changes under way; used when the daemon stops."""
        while self._running:
            await asyncio.wait(tuple(self._running))

    # --- inside -----------------------------------------------------------------------------------

    async def _shielded(self, work: Coroutine[object, object, T]) -> T:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Nobody waits any more: a refusal then is nobody's to read.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def _insert(self, draft: Draft, extra: Sequence[Write]) -> Task:
        await self._commit(None, draft, extra)
        return draft.task

    async def _change(
        self,
        task_id: str,
        command: Callable[[Draft], T],
        artifacts: bool,
        messages: bool,
        extra: Callable[[Draft], Sequence[Write]] | None,
        reporter: str,
        born: Draft | None = None,
    ) -> Committed[T]:
        lock = self._locks.setdefault(task_id, asyncio.Lock())
        async with lock:
            if task_id in self._doubtful:
                await self._settle_doubt(task_id)
            for _ in range(TRIES):
                before = await self.load(task_id)
                if before is None:
                    raise TaskNotFound
                draft = Draft(before, self._clock.now(), began_in=before.state, reporter=reporter)
                if artifacts and before.artifact_count:
                    draft.artifacts = _by_artifact_id(await self._store.artifacts(task_id))
                if messages or before.open_messages:
                    draft.messages = _by_message_id(await self._store.messages(task_id, 0, 10_000))
                value = command(draft)
                if not draft.revised:
                    return Committed(before, value)
                try:
                    await self._commit(before, draft, extra(draft) if extra else (), born)
                except CommitConflict:
                    self._cache.pop(task_id, None)
                    continue
                return Committed(draft.task, value)
        raise OutcomeUnknown

    async def _commit(
        self,
        before: Task | None,
        draft: Draft,
        extra: Sequence[Write],
        born: Draft | None = None,
    ) -> None:
        changes = [(before, draft)] if born is None else [(before, draft), (None, born)]
        writes = [
            write
            for earlier, change in changes
            for write in writes_of(earlier, change, self._retention)
        ]
        try:
            await self._store.commit([*writes, *extra, *await self._recorded(changes)])
        except CommitUnknown:
            for earlier, change in changes:
                self._cache.pop(change.task.id, None)
                self._doubtful[change.task.id] = (earlier, change.reporter)
            self._alarm.ring()
            raise OutcomeUnknown from None
        except StoreFull:
            raise Full("the store is full") from None
        for earlier, change in changes:
            self._publish(earlier, change)

    async def _recorded(self, changes: Sequence[tuple[Task | None, Draft]]) -> list[Write]:
        return [
            write
            for before, draft in changes
            for recorder in self._recorders
            for write in await recorder(before, draft)
        ]

    def _publish(self, before: Task | None, draft: Draft) -> None:
        self._remember(draft.task)
        for observer in self._observers:
            observer(before, draft)
        self._wakeups.notify(draft.task.id)

    async def _reconcile(self, task_id: str) -> None:
        lock = self._locks.setdefault(task_id, asyncio.Lock())
        async with lock:
            if task_id in self._doubtful:
                with suppress(OutcomeUnknown):  # the store is still away; asked again soon
                    await self._settle_doubt(task_id)

    async def _settle_doubt(self, task_id: str) -> None:
        """If the unknown commit did happen, tell it as if it had been known at once."""
        before, reporter = self._doubtful[task_id]
        told = before.event_head if before else 0
        try:
            task = await self._store.task(task_id)
            events = await self._store.events(task_id, told, MOST_EVENTS)
        except (CommitUnknown, ReadFailed):
            raise OutcomeUnknown from None
        del self._doubtful[task_id]
        if task is not None:
            draft = Draft(task, self._clock.now(), began_in=task.state, reporter=reporter)
            draft.events.extend(events)
            self._publish(before, draft)
        self._wakeups.notify(task_id)

    def _remember(self, task: Task) -> None:
        known = self._cache.get(task.id)
        if known is None or known.revision <= task.revision:
            self._cache[task.id] = task
        self._cache.move_to_end(task.id)
        if len(self._cache) > CACHED_TASKS:
            self._cache.popitem(last=False)


def writes_of(before: Task | None, draft: Draft, retention: int) -> list[Write]:
    """The writes that make a draft durable; cuts the oldest events beyond `retention`."""
    task = draft.task
    kept_from = task.event_head - retention + 1
    # Cutting a tenth at a time keeps the cost of a cut off the normal append.
    if kept_from > task.event_floor + retention // 10:
        draft.update(event_floor=kept_from)
        task = draft.task
    writes: list[Write] = [PutTask(task, before.revision if before else 0)]
    if draft.events:
        writes.append(AppendEvents(task.id, tuple(draft.events), tuple(draft.history)))
    if before is not None and task.event_floor != before.event_floor:
        writes.append(CutEvents(task.id, task.event_floor))
    writes += [PutArtifact(task.id, one) for one in draft.changed_artifacts.values()]
    writes += [PutChunk(task.id, one) for one in draft.chunks]
    writes += [PutMessage(task.id, one) for one in draft.changed_messages.values()]
    return writes


def _by_artifact_id(artifacts: Sequence[Artifact]) -> dict[str, Artifact]:
    return {one.artifact_id: one for one in artifacts}


def _by_message_id(messages: Sequence[Message]) -> dict[str, Message]:
    return {one.message_id: one for one in messages}
