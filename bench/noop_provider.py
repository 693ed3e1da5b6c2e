"""Providers for the benchmarks: one that does nothing, and one name that nobody serves."""

from __future__ import annotations

import asyncio
import sys

from aiosd.sdk import Provider, TaskContext


async def main(address: str, hold: bool) -> None:
    provider = Provider("bench", credits=256)

    async def noop(task: TaskContext, arguments: dict[str, object]) -> None:
        return None

    declare = provider.capability("bench.noop" if hold else "bench.queued", level="public")
    declare(noop)

    running = asyncio.ensure_future(provider.run(address))
    await provider.attached()
    print("ready", flush=True)
    if not hold:
        running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] == "hold"))
