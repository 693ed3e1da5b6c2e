"""What the daemon does by itself when a time has come: timeouts, waits, back-off, deadlines.

Level-triggered over the store: what is due is asked, not remembered, so a restart or a failed
commit loses no timer (H14, I10).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from aiosd.application.alarm import Alarm
from aiosd.application.ports import ReadFailed
from aiosd.domain import lifecycle
from aiosd.domain.errors import Refusal
from aiosd.domain.state import TaskState
from aiosd.domain.task import Phase

if TYPE_CHECKING:
    from aiosd.application.ledger import Ledger
    from aiosd.application.ports import Clock, Queue
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

#: Times further away than this stay on disk.
HORIZON_MS = 60_000
PAGE = 500
REST_MS = 200


class Deadlines:
    """One loop for everything that is timed."""

    def __init__(self, queue: Queue, ledger: Ledger, clock: Clock) -> None:
        self._queue = queue
        self._ledger = ledger
        self._clock = clock
        self._alarm = Alarm(clock)
        self._heap: list[tuple[int, str]] = []
        self._read_until = 0

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Note a time that comes soon (Ledger observer); stale ones are dropped when due."""
        due = draft.task.due_time()
        if not due or due > self._read_until or (before is not None and before.due_time() == due):
            return
        heapq.heappush(self._heap, (due, draft.task.id))
        if self._heap[0][1] == draft.task.id:
            self._alarm.ring()

    async def run(self) -> None:
        """Act on what is due, then sleep until the next time."""
        while True:
            now = self._clock.now()
            if now + HORIZON_MS // 2 >= self._read_until:
                try:
                    await self._read(now + HORIZON_MS)
                except ReadFailed:
                    self._read_until = 0
                    await self._alarm.sleep(now + REST_MS)
                    continue
            while self._heap and self._heap[0][0] <= now:
                _, task_id = heapq.heappop(self._heap)
                await self._act(task_id)
            wake = self._read_until - HORIZON_MS // 2
            await self._alarm.sleep(min(wake, self._heap[0][0]) if self._heap else wake)

    async def _read(self, until: int) -> None:
        # From here on commits inside the horizon are noted by `committed`.
        self._read_until = until
        found = await self._queue.due(until, PAGE)
        if len(found) == PAGE:
            self._read_until = found[-1][0]
        self._heap = sorted({*self._heap, *found})

    async def _act(self, task_id: str) -> None:
        try:
            done = await self._ledger.insist(task_id, act)
        except Refusal:
            return  # it ended meanwhile
        due = done.task.due_time()
        if due and due <= self._read_until:
            heapq.heappush(self._heap, (due, task_id))


def act(draft: Draft) -> None:
    """Whatever is due for this task now; nothing if it was early or stale."""
    task, now = draft.task, draft.now
    if task.terminal:
        return
    wait = task.interruption
    if task.deadline_time and task.deadline_time <= now:
        lifecycle.pass_deadline(draft)
    elif task.state is TaskState.WORKING:
        if task.options.timeout_ms and task.working_time(now) >= task.options.timeout_ms:
            lifecycle.time_out(draft)
        elif task.phase is Phase.BACKING_OFF and task.retry_time <= now:
            lifecycle.back_off_over(draft)
    elif wait is not None and not task.resume_pending and 0 < wait.expire_time <= now:
        lifecycle.expire_wait(draft)
