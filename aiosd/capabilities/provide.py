"""`aiosd provide`: the built-in capabilities, or the lab, as a process of their own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING

from aiosd.capabilities import files_digest, process_run
from aiosd.sdk import Provider

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "system"
CREDITS = 100
DRAIN_GRACE_MS = 5_000


def make_provider(*, lab: bool = False) -> Provider:
    """The provider of the built-in capabilities (`system.*`), or the lab."""
    if lab:
        from aiosd.capabilities.lab import make_provider as make_lab

        return make_lab()
    provider = Provider(NAME, credits=CREDITS)
    process_run.register(provider)
    files_digest.register(provider)
    return provider


async def provide(
    *,
    lab: bool = False,
    address: str | None = None,
    token: str | None = None,
    drain_grace_ms: int = DRAIN_GRACE_MS,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Run the provider until SIGTERM or SIGINT, then let what runs finish, and detach.

    `address` and `token` are those of `aiosd.sdk.connect`. `announce` gets one JSON line,
    `{"ready":true,"name":...}`, once the daemon has answered; None: it goes to stdout. Waits for
    a daemon that is not there yet. What still runs after `drain_grace_ms` is stopped, and the
    daemon is left to find that its outcome is unknown. Raises AiosdError when the daemon refuses.
    """
    provider = make_provider(lab=lab)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    running = asyncio.ensure_future(provider.run(address, token))
    ready = asyncio.ensure_future(_announce(provider, announce or _print))
    stop = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and ready.done():
            await provider.drain(drain_grace_ms)
        elif not running.done():
            running.cancel()
        await asyncio.wait({running})
    finally:
        for future in (ready, stop, running):
            future.cancel()
        await asyncio.wait({ready, stop, running})
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    if not running.cancelled():
        running.result()


async def _announce(provider: Provider, announce: Callable[[str], object]) -> None:
    await provider.attached()
    announce(json.dumps({"ready": True, "name": provider.name}, separators=(",", ":")))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
