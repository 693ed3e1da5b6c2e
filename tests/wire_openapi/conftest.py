"""One service for all tests of this folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.support.stack import Stack
from tests.wire_openapi.client import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with TemporaryDirectory(prefix="aiosd-") as directory, Stack(Path(directory)) as up:
        yield up


@pytest.fixture
async def api(stack: Stack) -> AsyncIterator[Api]:
    stack.check()
    client = Api(stack)
    yield client
    await client.close()
