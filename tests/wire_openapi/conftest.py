"""Callers of the shared service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.wire_openapi.client import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack


@pytest.fixture
def stack(shared_stack: Stack) -> Stack:
    return shared_stack


@pytest.fixture
async def api(stack: Stack) -> AsyncIterator[Api]:
    stack.check()
    client = Api(stack)
    yield client
    await client.close()
