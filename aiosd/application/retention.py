"""Forgetting: terminal tasks, operations and keys whose time is over (design.md 14)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from aiosd.application.alarm import Alarm
from aiosd.application.ports import CommitUnknown, ReadFailed, StoreFull

if TYPE_CHECKING:
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.ports import Clock, Queue, Runtimes
    from aiosd.application.quotas import Quotas

HOUR_MS = 3_600_000
EVERY_MS = 10 * 60_000
PAGE = 200


class Retention:
    """A slow loop that deletes in small steps."""

    def __init__(
        self,
        queue: Queue,
        runtimes: Runtimes,
        ledger: Ledger,
        quotas: Quotas,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._queue = queue
        self._runtimes = runtimes
        self._ledger = ledger
        self._quotas = quotas
        self._clock = clock
        self._limits = limits
        self._alarm = Alarm(clock)

    async def run(self) -> None:
        """Sweep, then rest."""
        while True:
            # The next sweep asks the store again.
            with suppress(CommitUnknown, StoreFull, ReadFailed):
                await self.sweep()
            rested = self._clock.now() + EVERY_MS
            while self._clock.now() < rested:
                await self._alarm.sleep(rested)

    async def sweep(self) -> int:
        """Delete what is over; returns how many tasks."""
        now = self._clock.now()
        ended_before = now - self._limits.task_retention_hours * HOUR_MS
        keys_before = now - self._limits.idempotency_retention_hours * HOUR_MS
        while await self._runtimes.forget_operations(ended_before, PAGE) == PAGE:
            pass
        total = 0
        while True:
            ids = await self._queue.expired(ended_before, PAGE)
            freed = await self._quotas.held_by(ids)
            await self._queue.forget(ids, keys_before)
            self._quotas.forgotten(freed)
            self._ledger.forget(ids)
            total += len(ids)
            if len(ids) < PAGE:
                return total
