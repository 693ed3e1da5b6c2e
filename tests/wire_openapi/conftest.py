"""Callers of the shared service, and of one with narrow limits that is killed now and then."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.support.stack import Stack
from tests.wire_openapi.client import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@pytest.fixture
def stack(shared_stack: Stack) -> Stack:
    return shared_stack


@pytest.fixture
async def api(stack: Stack) -> AsyncIterator[Api]:
    stack.check()
    client = Api(stack)
    yield client
    await client.close()


@pytest.fixture
async def caller(stack: Stack) -> AsyncIterator[Callable[..., Api]]:
    """Make further callers: a principal, which no other room knows, and its scopes."""
    made: list[Api] = []

    def make(principal: str, *scopes: str) -> Api:
        made.append(Api(stack, stack.make_token(f"openapi.{principal}", *scopes)))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture(scope="module")
def narrow_stack() -> Iterator[Stack]:
    """One slot, a queue of three, and a short memory for events."""
    with (
        TemporaryDirectory(prefix="aiosd-") as directory,
        Stack(
            Path(directory),
            max_tasks_per_tool=1,
            max_queue_size=3,
            event_retention=30,
            http_auth_failures_per_minute=3,
        ) as stack,
    ):
        yield stack


@pytest.fixture
async def narrow(narrow_stack: Stack) -> AsyncIterator[Api]:
    narrow_stack.check()
    client = Api(narrow_stack)
    yield client
    await client.close()
