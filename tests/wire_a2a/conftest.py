"""Callers of the shared service, and a service of its own for the tests that need it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.stack import Stack
from tests.wire_a2a.raw import BINDINGS, Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@pytest.fixture
async def raw(shared_stack: Stack) -> AsyncIterator[Raw]:
    client = Raw(shared_stack)
    yield client
    await client.close()


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    """Each of the three bindings in turn."""
    return str(request.param)


@pytest.fixture
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stack]]:
    """Start a service with settings of its own."""
    with ExitStack() as running:

        def start(**settings: object) -> Stack:
            return running.enter_context(Stack(tmp_path_factory.mktemp("own"), **settings))

        yield start


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Raw]]:
    """A caller of a service that a test started itself, or with another token."""
    clients: list[Raw] = []

    def connected(stack: Stack, token: str | None = None, version: str | None = "1.0") -> Raw:
        client = Raw(stack, token, version)
        clients.append(client)
        return client

    yield connected
    for client in clients:
        await client.close()
