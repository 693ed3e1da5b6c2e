"""The reference daemon of the SDK's tests, and the providers under test attached to it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd.capabilities import process_tree
from tests.sdk.conftest import daemon, socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiosd.sdk import Provider
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon

__all__ = ["attach", "daemon", "eventually", "pids_of", "socket"]

PATIENCE_S = 10.0


@pytest.fixture
def attach(daemon: ReferenceDaemon) -> Attach:
    """`async with attach(provider)`: the provider runs, and the daemon can make offers."""

    @asynccontextmanager
    async def attached(provider: Provider) -> AsyncIterator[asyncio.Task[None]]:
        run = asyncio.create_task(provider.run(daemon.address))
        try:
            await daemon.until(lambda: daemon.hellos, "Hello")
            yield run
        finally:
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run

    return attached


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until something in the world outside holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"never happened: {condition}"
        await asyncio.sleep(0.01)


def pids_of(marker: str) -> dict[int, str]:
    """Process ids and states of the living processes whose arguments hold a marker."""
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            command = (directory / "cmdline").read_bytes()
            state = process_tree.read(int(directory.name)).state
        except OSError:
            continue
        if marker.encode() in command and state not in "ZX" and b"process_keeper" not in command:
            found[int(directory.name)] = state
    return found
