"""A reference daemon for each test, and providers that are attached to it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sdk.reference_daemon import PATIENCE_S, ReferenceDaemon, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from aiosd.sdk import Provider

    Attach = Callable[[Provider], AbstractAsyncContextManager[asyncio.Task[None]]]


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path that is short enough for a Unix socket, which pytest's own need not be."""
    folder = tempfile.mkdtemp(prefix="aiosd-sdk-")
    yield Path(folder, "d.sock")
    shutil.rmtree(folder)


@pytest.fixture
async def daemon(socket: Path) -> AsyncIterator[ReferenceDaemon]:
    async with running(ReferenceDaemon(socket)) as daemon:
        yield daemon


@pytest.fixture
def attach(daemon: ReferenceDaemon) -> Attach:
    """`async with attach(provider)`: the provider runs and is attached."""

    @asynccontextmanager
    async def attached(provider: Provider) -> AsyncIterator[asyncio.Task[None]]:
        run = asyncio.create_task(provider.run(daemon.address))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await provider.attached()
            yield run
        finally:
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run

    return attached
