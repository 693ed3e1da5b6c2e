"""Clients of the shared service, `aiosctl` on it, and a service of its own to be killed."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.aiosctl import run_aiosctl
from tests.support.raw_receiver import Receiver
from tests.support.stack import Stack
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Ctl = Callable[..., Awaitable[tuple[int, Any]]]

LOOPBACK = ["127.0.0.0/8"]


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
        environ = {"PATH": os.environ["PATH"], "HOME": str(stack.directory)}
        ran = await asyncio.to_thread(run_aiosctl, environ, *words, "-o", "json", *where)
        return ran.code, json.loads(ran.out) if ran.out else ran.err

    return run
