"""One service that may post to loopback, its clients, and `aiosctl` on it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.raw_receiver import Receiver
from tests.support.stack import Stack
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Ctl = Callable[..., Awaitable[tuple[int, Any]]]

LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture(scope="session")
def shared_stack() -> Iterator[Stack]:
    with (
        TemporaryDirectory(prefix="aiosd-") as directory,
        Stack(Path(directory), webhook_allow=LOOPBACK, max_queue_size=1000) as up,
    ):
        yield up


@pytest.fixture
def stack(shared_stack: Stack) -> Stack:
    shared_stack.check()
    return shared_stack


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    """A service that only one test uses, to kill it and look into its files."""
    with (
        TemporaryDirectory(prefix="aiosd-") as directory,
        Stack(Path(directory), webhook_allow=LOOPBACK) as up,
    ):
        yield up


@pytest.fixture
async def aios(stack: Stack) -> AsyncIterator[AiosClient]:
    client = AiosClient(stack.http, stack.token)
    yield client
    await client.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as started:
        yield started


@pytest.fixture
def ctl(stack: Stack) -> Ctl:
    return ctl_of(stack)


def ctl_of(stack: Stack) -> Ctl:
    """`aiosctl WORDS -o json`: its exit code and what it printed."""

    async def run(*words: str, offline: bool = False) -> tuple[int, Any]:
        where = (
            ["--state-dir", str(stack.state_dir)] if offline else ["--socket", str(stack.socket)]
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiosd.ctl", *words, "-o", "json", *where),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(stack.directory)},
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, json.loads(out) if out else err.decode()

    return run
