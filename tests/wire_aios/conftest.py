"""Clients of the shared service, and a service of its own for the tests that need it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.support.stack import Stack
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@contextmanager
def running(**settings: object) -> Iterator[Stack]:
    """A service in a directory of its own whose path is short enough for a socket."""
    with TemporaryDirectory(prefix="aiosd-") as directory, Stack(Path(directory), **settings) as up:
        yield up


@pytest.fixture
async def aios(shared_stack: Stack) -> AsyncIterator[AiosClient]:
    shared_stack.check()
    client = AiosClient(shared_stack.http, shared_stack.token)
    yield client
    await client.close()


@pytest.fixture
def start_stack() -> Iterator[Callable[..., Stack]]:
    """Start a service with settings of its own."""
    with ExitStack() as stacks:

        def start(**settings: object) -> Stack:
            return stacks.enter_context(running(**settings))

        yield start


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[Stack], AiosClient]]:
    """A client of a service that a test started itself."""
    clients: list[AiosClient] = []

    def connected(stack: Stack, token: str | None = None) -> AiosClient:
        client = AiosClient(stack.http, token or stack.token)
        clients.append(client)
        return client

    yield connected
    for client in clients:
        await client.http.aclose()
