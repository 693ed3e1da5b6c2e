"""One service for all tests of this folder, and one of its own for those that need it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.stack import Stack
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@pytest.fixture(scope="session")
def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("shared")) as stack:
        yield stack


@pytest.fixture
async def aios(shared_stack: Stack) -> AsyncIterator[AiosClient]:
    client = AiosClient(shared_stack.http, shared_stack.token)
    yield client
    await client.close()


@pytest.fixture
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stack]]:
    """Start a service with settings of its own."""
    with ExitStack() as running:

        def start(**settings: object) -> Stack:
            return running.enter_context(Stack(tmp_path_factory.mktemp("own"), **settings))

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
