"""Clocks, ids and schemas that tests control."""

from __future__ import annotations

import asyncio

#: 2026-01-01T00:00:00Z, so that times in failures read like times.
START = 1_767_225_600_000


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self, now: int = START) -> None:
        self.time = now

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self.time

    def advance(self, ms: int) -> int:
        """Move forward; returns the new time."""
        self.time += ms
        return self.time


class LoopClock:
    """Follows the time of the running event loop, which may be virtual."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return START + int(asyncio.get_running_loop().time() * 1000 + 1e-6)


class CountingIds:
    """The same ids in every run; later ones sort later."""

    def __init__(self) -> None:
        self._last = 0

    def new(self, prefix: str) -> str:
        """`task-<32 hex digits>` and so on."""
        self._last += 1
        return f"{prefix}-{self._last:032x}"

    def secret(self) -> str:
        """Unique, and no secret at all."""
        return self.new("secret")


class NoSchemas:
    """Every schema is fine and everything satisfies it, except the schema `false`."""

    def check(self, schema: str) -> str:
        """Empty, or a sentence for `broken`."""
        return "is not a schema" if schema == "broken" else ""

    def problem(self, schema: str, instance: object) -> str:
        """Empty, or a sentence for the schema `false`."""
        del instance
        return "nothing is allowed" if schema == "false" else ""
