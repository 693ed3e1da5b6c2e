"""Following a task: a subscriber is a cursor. Replay and live are the same code (design.md 6)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aiosd.application.errors import CursorInvalid, ShuttingDown, TaskNotFound
from aiosd.domain.event import ArtifactChanged, Event, EventFamily

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from aiosd.application.ledger import Ledger
    from aiosd.application.ports import Store
    from aiosd.application.wakeups import Wakeups
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

PAGE = 500
TAIL = 256


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in order. `cursor` is the newest number passed, filtered ones included.

    `truncated` says that events before `oldest` were cut by retention (I29).
    """

    events: tuple[Event, ...]
    cursor: int
    truncated: bool = False
    oldest: int = 0


class Watch:
    """Reads the log for any number of subscribers; a slow one costs its cursor alone."""

    def __init__(self, store: Store, ledger: Ledger, wakeups: Wakeups) -> None:
        self._store = store
        self._ledger = ledger
        self._wakeups = wakeups
        self._tails: dict[str, deque[Event]] = {}
        self._stopping = False

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Keep the newest events of tasks that somebody follows (Ledger observer)."""
        del before
        task_id = draft.task.id
        if not self._wakeups.heard(task_id):
            self._tails.pop(task_id, None)
        elif draft.events:
            tail = self._tails.setdefault(task_id, deque(maxlen=TAIL))
            if tail and tail[-1].sequence + 1 != draft.events[0].sequence:
                tail.clear()  # a tail has no holes
            tail.extend(draft.events)

    def stop(self) -> None:
        """End every stream with ShuttingDown: its reader resumes elsewhere or later."""
        self._stopping = True
        self._wakeups.notify_all()

    async def head(self, task_id: str) -> int:
        """The newest event number."""
        return (await self._task(task_id)).event_head

    async def page(self, task_id: str, after: int, limit: int) -> Batch:
        """Events after a cursor, without waiting. Raises CursorInvalid ahead of the log."""
        task = await self._task(task_id)
        check_cursor(task, after)
        return await self._read(task, after, frozenset(), limit)

    async def follow(
        self,
        task_id: str,
        after: int,
        *,
        families: frozenset[EventFamily] = frozenset(),
        parts: bool = False,
        ended: Callable[[], bool] = lambda: False,
    ) -> AsyncIterator[Batch]:
        """Batches after a cursor; ends after the last event of a terminal task (I28, I30).

        `ended` is asked at each wake-up: True ends the stream early.
        """
        check_cursor(await self._task(task_id), after)
        cursor = after
        with self._wakeups.listen(task_id) as signal:
            while True:
                signal.clear()
                if self._stopping:
                    raise ShuttingDown
                if ended():
                    return
                task = await self._task(task_id)
                while cursor < task.event_head:
                    batch = await self._read(task, cursor, families, PAGE)
                    cursor = batch.cursor
                    if batch.events or batch.truncated:
                        yield await self._join(batch) if parts else batch
                    task = await self._task(task_id)
                if task.terminal:
                    return
                await signal.wait()

    async def _task(self, task_id: str) -> Task:
        task = await self._ledger.load(task_id)
        if task is None:
            raise TaskNotFound
        return task

    async def _read(
        self, task: Task, cursor: int, families: frozenset[EventFamily], limit: int
    ) -> Batch:
        start = max(cursor, task.event_floor - 1)
        # What the store holds beyond the head is not told yet: a reader that knew of it would be
        # ahead of the log when it comes back.
        limit = min(limit, task.event_head - start)
        events = self._from_tail(task.id, start, limit)
        if not events:
            events = await self._store.events(task.id, start, limit)
        if start < task.event_head and not events:
            raise TaskNotFound  # the task was forgotten while it was followed
        oldest = events[0].sequence if events else start + 1
        newest = events[-1].sequence if events else start
        # The events themselves say what was cut, since a cut may have come while they were read.
        truncated = oldest > cursor + 1
        wanted = tuple(one for one in events if not families or one.family in families)
        return Batch(wanted, newest, truncated, oldest if truncated else 0)

    def _from_tail(self, task_id: str, after: int, limit: int) -> Sequence[Event]:
        tail = self._tails.get(task_id)
        if not tail or tail[0].sequence > after + 1:
            return ()
        skip = after + 1 - tail[0].sequence
        return [event for position, event in enumerate(tail) if skip <= position < skip + limit]

    async def _join(self, batch: Batch) -> Batch:
        """Put the content of artifact chunks into their events."""
        joined = [await self._with_parts(event) for event in batch.events]
        return replace(batch, events=tuple(joined))

    async def _with_parts(self, event: Event) -> Event:
        payload = event.payload
        if not isinstance(payload, ArtifactChanged):
            return event
        chunks = await self._store.chunks(
            event.task_id, payload.artifact.artifact_id, payload.position, 1
        )
        # A later version may have replaced the content; the fact that it was there remains.
        same = [
            one
            for one in chunks
            if one.version == payload.artifact.version and one.position == payload.position
        ]
        return replace(event, payload=replace(payload, parts=same[0].parts)) if same else event


def check_cursor(task: Task, after: int) -> None:
    """Raise CursorInvalid for a cursor that the log has not reached (R078)."""
    if after < 0 or after > task.event_head:
        raise CursorInvalid(
            f"event {after} is ahead of the log", {"head": str(task.event_head), "field": "after"}
        )
