"""Waiting without polling: until something rings or a time has come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiosd.application.ports import Clock

#: A wait is cut into pieces of at most this length, so that a wrong clock cannot stop a loop.
LONGEST_MS = 60_000


class Alarm:
    """A bell that one loop sleeps beside."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bell = asyncio.Event()

    def ring(self) -> None:
        """Wake the sleeper, or keep it from falling asleep."""
        self._bell.set()

    async def sleep(self, until: int) -> None:
        """Return at `until` (ms since the epoch; 0: never), at a ring, or after LONGEST_MS."""
        left = LONGEST_MS if not until else min(LONGEST_MS, until - self._clock.now())
        if left > 0 and not self._bell.is_set():
            try:
                async with asyncio.timeout(left / 1000):
                    await self._bell.wait()
            except TimeoutError:
                pass
        self._bell.clear()
