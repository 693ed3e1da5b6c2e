"""Who runs now: slots are derived from the tasks in WORKING, never counted apart (R091, R092)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from aiosd.application.limits import Limits
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task


class Slots:
    """`reserve` bridges the time between a decision and its commit; every one is released."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._holders: dict[str, str] = {}  # task id -> tool; WORKING or reserved
        self._working: set[str] = set()
        self._reserved: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()

    @property
    def working(self) -> int:
        """Slots taken, reservations included."""
        return len(self._holders)

    def free(self, tool_id: str) -> bool:
        """Whether a task of this tool may enter WORKING now."""
        return (
            len(self._holders) < self._limits.max_concurrent_tasks
            and self._tools[tool_id] < self._limits.max_tasks_per_tool
        )

    def reserve(self, task: Task) -> bool:
        """Take a slot ahead of the commit; True if there was one or the task has one."""
        if task.id not in self._holders and not self.free(task.request.tool_id):
            return False
        self._reserved[task.id] += 1
        self._take(task)
        return True

    def release(self, task_id: str) -> None:
        """End a reservation; what entered WORKING meanwhile keeps its slot."""
        self._reserved[task_id] -= 1
        if self._reserved[task_id] <= 0:
            del self._reserved[task_id]
        self._leave(task_id)

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Follow the tasks in and out of WORKING (Ledger observer)."""
        del before
        self.place(draft.task)

    def place(self, task: Task) -> None:
        """Count a task as its state says."""
        if task.state is TaskState.WORKING:
            self._working.add(task.id)
            self._take(task)
        else:
            self._working.discard(task.id)
            self._leave(task.id)

    def _take(self, task: Task) -> None:
        if task.id not in self._holders:
            self._holders[task.id] = task.request.tool_id
            self._tools[task.request.tool_id] += 1

    def _leave(self, task_id: str) -> None:
        if task_id in self._working or task_id in self._reserved:
            return
        tool = self._holders.pop(task_id, None)
        if tool is not None:
            self._tools[tool] -= 1
            if not self._tools[tool]:
                del self._tools[tool]
