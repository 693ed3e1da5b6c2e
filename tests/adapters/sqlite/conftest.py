"""Stores on files, and files that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.adapters.sqlite import SqliteStore
from tests.adapters.sqlite.faulty_files import NAME, Faults, faulty_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aiosd.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture
def faults() -> Iterator[Faults]:
    yield from faulty_files()


@pytest.fixture
async def faulty_store(path: Path, faults: Faults) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(path, vfs=NAME)
    yield store
    faults.next_syncs.clear()
    faults.next_writes.clear()
    await store.close()
