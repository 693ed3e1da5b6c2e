"""Waiting for a condition with a deadline: the only way in which a test may wait."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

POLL_S = 0.02


async def eventually(look: Callable[[], Awaitable[T]], *, within_s: float = 15.0) -> T:
    """Call `look` until what it gives is true, and return that; AssertionError at the deadline."""
    deadline = time.monotonic() + within_s
    while True:
        seen = await look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {within_s} s; last seen: {seen!r}"
        await asyncio.sleep(POLL_S)
