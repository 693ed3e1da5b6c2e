"""Reports of one attempt waiting to be stored, in order, as many as wait in one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiosd.application.messages import Report
    from aiosd.application.reporting import Reporting
    from aiosd.application.sessions import Session

ROOM = 1000


class Inbox:
    """One writer (the stream), one reader (`drain`).

    `parked` means that the next report needs WORKING while the task is paused or waits: it is
    taken up when the task goes on, and until then the provider keeps it too (I24).
    """

    def __init__(self, reporting: Reporting, session: Session, task_id: str) -> None:
        self._reporting = reporting
        self._session = session
        self._task_id = task_id
        self._waiting: deque[Report] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self.work: asyncio.Task[None] | None = None
        self.parked = False

    @property
    def empty(self) -> bool:
        """Nothing waits."""
        return not self._waiting

    async def put(self, report: Report) -> bool:
        """Append, waiting while the inbox is full; that is the stream's back-pressure.

        False if it is full and parked: the task may stand for days, and the stream must be read.
        """
        if self.parked and len(self._waiting) >= ROOM:
            return False
        if not self._room.is_set():
            self._session.held_back = True
            try:
                await self._room.wait()
            finally:
                self._session.held_back = False
        self._waiting.append(report)
        if len(self._waiting) >= ROOM and not self.parked:
            self._room.clear()
        return True

    async def drain(self) -> None:
        """Store everything that waits, batch by batch, until nothing does or it is parked."""
        while self._waiting:
            batch = list(self._waiting)
            self._waiting.clear()
            self._room.set()
            left = await self._reporting.store(self._session, self._task_id, batch)
            if left:
                self._waiting.extendleft(reversed(left))
                # It may have gone on between that commit and now, when nobody would tell.
                self.parked = await self._reporting.must_wait(self._task_id)
            if self.parked:
                return
