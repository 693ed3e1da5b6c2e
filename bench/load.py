"""A closed loop of callers over one channel: rate and latency."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True)
class Figures:
    """What one round measured; times in milliseconds."""

    rate: float
    p50: float
    p99: float


async def closed_loop(call: Callable[[], Awaitable[Any]], callers: int, calls: int) -> Figures:
    """`calls` calls in all, `callers` of them under way at a time."""
    taken: list[float] = []

    async def caller(count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            await call()
            taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller(calls // callers) for _ in range(callers)))
    elapsed = time.perf_counter() - began
    taken.sort()
    return Figures(
        len(taken) / elapsed,
        taken[len(taken) // 2] * 1000,
        taken[int(len(taken) * 0.99)] * 1000,
    )
