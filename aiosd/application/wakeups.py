"""'Something was committed': a signal that carries no data. Who hears it looks at the store."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wakeups:
    """Signals by key; a key without listeners costs nothing."""

    def __init__(self) -> None:
        # Dictionaries as ordered sets: who listens first is woken first, in every run.
        self._listeners: dict[str, dict[asyncio.Event, None]] = {}

    def notify(self, key: str) -> None:
        """Wake everybody who listens to `key`."""
        for event in self._listeners.get(key, ()):
            event.set()

    def notify_all(self) -> None:
        """Wake everybody: the daemon stops, or something unknown may have happened."""
        for events in self._listeners.values():
            for event in events:
                event.set()

    def heard(self, key: str) -> bool:
        """Whether anybody listens."""
        return key in self._listeners

    @contextmanager
    def listen(self, key: str) -> Iterator[asyncio.Event]:
        """An event that is set at each signal; clear it before looking, then wait."""
        event = asyncio.Event()
        self._listeners.setdefault(key, {})[event] = None
        try:
            yield event
        finally:
            listeners = self._listeners[key]
            listeners.pop(event, None)
            if not listeners:
                del self._listeners[key]
