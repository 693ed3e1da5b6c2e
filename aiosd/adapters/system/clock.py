"""The daemon's clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MS = 1_000_000


def _wall_ns() -> int:
    return time.time_ns()


def _steady_ns() -> int:
    """Nanoseconds that only go forward; they count a suspended machine where the kernel can."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


class SystemClock:
    """UTC in milliseconds since the epoch that never jumps while the process runs.

    It reads the wall clock once and then follows CLOCK_BOOTTIME, so that somebody who sets the
    wall clock neither fires nor delays a timer (I48). A restart reads the wall clock afresh.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = _wall_ns, steady_ns: Callable[[], int] = _steady_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._offset_ns = wall_ns() - steady_ns()

    def now(self) -> int:
        """Milliseconds since the epoch, UTC; never less than an earlier answer."""
        return (self._steady_ns() + self._offset_ns) // _MS

    def jumped_ms(self) -> int:
        """How far the wall clock is ahead of `now()`; negative when it was set back.

        Small values are ordinary slewing. Health reports large ones.
        """
        return round((self._wall_ns() - self._steady_ns() - self._offset_ns) / _MS)
