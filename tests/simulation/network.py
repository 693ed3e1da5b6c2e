"""Attach streams as TCP gives them: in order, late, and cut at any moment."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Accept:
    """Takes an offer."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Reject:
    """Declines an offer."""

    task_id: str
    attempt: int
    busy: bool


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life."""


@dataclass(frozen=True, slots=True)
class Detach:
    """An end in order."""


END = object()


class Pipe:
    """One direction. What is under way belongs to nobody and survives its sender."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._under_way: deque[Any] = deque()
        self._arrived: deque[Any] = deque()
        self._last = 0.0
        self._signal = asyncio.Event()
        self._cut = False

    def put(self, message: Any) -> None:
        """Send; it arrives after a while, or never if the pipe is cut before."""
        if self._cut:
            return
        loop = asyncio.get_running_loop()
        self._last = max(self._last, loop.time() + self._world.latency())
        self._under_way.append(message)
        loop.call_at(self._last, self._arrive, context=Context())

    def _arrive(self) -> None:
        if self._under_way:
            self._arrived.append(self._under_way.popleft())
            self._signal.set()

    def stall(self, seconds: float) -> None:
        """Nothing more arrives for a while."""
        self._last = max(self._last, asyncio.get_running_loop().time() + seconds)

    def cut(self) -> None:
        """What has not arrived never does; the reader sees the end."""
        self._cut = True
        self._under_way.clear()
        self._arrived.append(END)
        self._signal.set()

    async def get(self) -> Any:
        """The next message, or END for ever."""
        while not self._arrived:
            self._signal.clear()
            await self._signal.wait()
        return self._arrived[0] if self._arrived[0] is END else self._arrived.popleft()


class Stream:
    """One Attach stream; to the daemon it is a ProviderLink."""

    def __init__(self, world: World) -> None:
        self.to_daemon = Pipe(world)
        self.to_provider = Pipe(world)
        self.session_lost = False

    def send(self, message: Any) -> None:
        """Daemon to provider."""
        self.to_provider.put(message)

    def close(self, session_lost: bool) -> None:
        """The daemon ends the stream; the provider sees it after what was sent before."""
        self.session_lost = self.session_lost or session_lost
        self.to_provider.put(END)
        self.to_daemon.cut()

    def cut(self) -> None:
        """The connection breaks."""
        self.to_daemon.cut()
        self.to_provider.cut()

    def stall(self, seconds: float) -> None:
        """A black hole in both directions for a while."""
        self.to_daemon.stall(seconds)
        self.to_provider.stall(seconds)
