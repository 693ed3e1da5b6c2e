"""Run the provider beside a daemon: python -m examples.search_and_compare [--private]"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from typing import TYPE_CHECKING

from examples.search_and_compare.fetching import Limits
from examples.search_and_compare.provider import make_provider

if TYPE_CHECKING:
    from aiosd.sdk import Provider

DRAIN_MS = 5_000


async def run(provider: Provider) -> None:
    """Run until SIGTERM or SIGINT; print one line of JSON once the daemon has answered."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    running = asyncio.ensure_future(provider.run())
    attached = asyncio.ensure_future(provider.attached())
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({running, attached, stop}, return_when=asyncio.FIRST_COMPLETED)
    if attached.done():
        print(json.dumps({"ready": True, "name": provider.name}), flush=True)
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await provider.drain(DRAIN_MS)
    elif not running.done():
        running.cancel()
    attached.cancel()
    stop.cancel()
    await asyncio.wait({running})
    if not running.cancelled():
        running.result()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="examples.search_and_compare", description=__doc__)
    parser.add_argument(
        "--private", action="store_true", help="visit addresses that are not public, too"
    )
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=Limits().timeout_s,
        help="for one page, redirects included",
    )
    given = parser.parse_args()
    limits = Limits(timeout_s=given.timeout_s, private=given.private)
    asyncio.run(run(make_provider(limits)))


if __name__ == "__main__":
    main()
