"""A bound on records that anybody can cause at will: refused credentials, refused rates."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiosd.application.ports import Clock

MOST: Final = 600
WINDOW_MS: Final = 60_000
_MOST_KEYS: Final = 4096


@dataclass(slots=True)
class _Window:
    begin: int
    count: int = 0
    omitted: int = 0


class Flood:
    """Lets MOST of each kind pass in a minute and counts the others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    def passes(self, principal: str, reason: str) -> int | None:
        """How many were omitted since the one before, or None to omit this one."""
        key, now = (principal, reason), self._clock.now()
        window = self._windows.setdefault(key, _Window(now))
        self._windows.move_to_end(key)
        if len(self._windows) > _MOST_KEYS:
            self._windows.popitem(last=False)
        if now - window.begin >= WINDOW_MS:
            window.begin, window.count = now, 0
        if window.count == MOST:
            window.omitted += 1
            return None
        window.count += 1
        omitted, window.omitted = window.omitted, 0
        return omitted
