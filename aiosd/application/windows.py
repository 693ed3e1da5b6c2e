"""Queued tasks as the scheduler sees them: a bounded window per capability, the rest on disk.

Queue depth costs disk, not memory (H09).
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from aiosd.application.ports import Queue
    from aiosd.domain.task import Task

WINDOW = 64


class Window:
    """The first queued tasks of one capability, in order. `more`: the store may have others."""

    def __init__(self) -> None:
        self.entries: list[tuple[tuple[int, int, str], str]] = []  # (order, tool)
        self.more = True

    def add(self, order: tuple[int, int, str], tool: str) -> None:
        """A task was queued: keep it if it belongs to the first ones."""
        entry = (order, tool)
        if entry in self.entries:
            return  # it was read from the store before its commit was told
        if self.more and (not self.entries or entry > self.entries[-1]):
            return  # behind what is known; it will be read when its turn comes
        insort(self.entries, entry)
        if len(self.entries) > WINDOW:
            self.entries.pop()
            self.more = True

    def discard(self, order: tuple[int, int, str]) -> None:
        """A task left the queue."""
        self.entries = [entry for entry in self.entries if entry[0] != order]


class Windows:
    """One window a capability; only those that a provider offers are kept filled."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._windows: dict[str, Window] = {}

    def follow(self, task: Task) -> None:
        """Take a committed task in or out."""
        window = self._windows.get(task.request.capability_id)
        if window is None:
            return
        if task.state is not TaskState.SUBMITTED:
            window.discard(task.order)
        elif task.revision == 1:
            window.add(task.order, task.request.tool_id)

    def put_back(self, task: Task) -> None:
        """An offer came to nothing: the task is queued again."""
        window = self._windows.get(task.request.capability_id)
        if window is not None and task.state is TaskState.SUBMITTED:
            window.discard(task.order)
            window.add(task.order, task.request.tool_id)

    def take(self, task_id: str, capability_id: str) -> None:
        """A task is on offer: it is not a candidate meanwhile."""
        window = self._windows.get(capability_id)
        if window is not None:
            window.entries = [entry for entry in window.entries if entry[0][2] != task_id]

    async def head(
        self, capability_id: str, on_offer: set[str]
    ) -> tuple[tuple[int, int, str], str] | None:
        """The next queued task of a capability and its tool."""
        window = self._windows.setdefault(capability_id, Window())
        window.entries = [entry for entry in window.entries if entry[0][2] not in on_offer]
        if not window.entries and window.more:
            wanted = WINDOW + len(on_offer)
            # Commits that land while the store reads are seen by `add`, because `more` is False.
            window.more = False
            try:
                tasks = await self._queue.queued(capability_id, wanted)
            except BaseException:
                window.more = True
                raise
            known = {entry[0] for entry in window.entries}
            for task in tasks:
                if task.id not in on_offer and task.order not in known:
                    insort(window.entries, (task.order, task.request.tool_id))
            window.more = window.more or len(tasks) == wanted
        return window.entries[0] if window.entries else None
