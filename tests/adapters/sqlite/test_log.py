"""The write-ahead log stays short, and nobody waits for that (H23)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import apsw
import pytest

from aiosd.adapters.sqlite import SqliteStore
from aiosd.adapters.sqlite import log as log_module
from aiosd.adapters.sqlite.connection import WAL_LIMIT_BYTES
from aiosd.application.writes import PutChunk
from aiosd.domain.artifact import StoredChunk
from aiosd.domain.content import Part, PartKind
from tests.contract.builders import a_task, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024
DEADLINE_S = 20


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.01)


def wal(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


async def write(store: SqliteStore, mebibytes: int, start: int = 0) -> None:
    raw = bytes(MIB)
    for n in range(start, start + mebibytes):
        chunk = StoredChunk("art-1", 1, n, (Part(PartKind.RAW, raw=raw),))
        await store.commit([PutChunk(a_task().id, chunk)])


@pytest.mark.req("H23")
async def test_a_long_log_is_moved_into_the_database(store: SqliteStore, path: Path) -> None:
    await store.commit([put(a_task())])
    await write(store, 40)
    await until(lambda: wal(path) < WAL_LIMIT_BYTES)
    assert not store.health()


@pytest.mark.req("H23")
async def test_a_log_that_rests_is_moved_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "IDLE_S", 0.1)
    store = SqliteStore.open(path)
    await store.commit([put(a_task())])
    await write(store, 6)
    await until(lambda: wal(path) == 0)
    await store.close()


@pytest.mark.req("H23")
async def test_a_reader_that_pins_the_log_is_reported_and_let_go(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "IDLE_S", 0.1)
    store = SqliteStore.open(path)
    await store.commit([put(a_task())])
    other = apsw.Connection(str(path))
    other.execute("BEGIN; SELECT count(*) FROM tasks").fetchall()
    await write(store, 18)
    await until(lambda: list(store.health()) == ["log_long"])
    other.execute("COMMIT")
    other.close()
    await until(lambda: wal(path) == 0 and not store.health())
    await store.close()


@pytest.mark.req("H23")
async def test_our_own_readers_do_not_pin_the_log(store: SqliteStore, path: Path) -> None:
    await store.commit([put(a_task())])

    async def read() -> None:
        for _ in range(200):
            await store.chunks(a_task().id, "art-1", 0, 1)

    await asyncio.gather(write(store, 40), read(), read())
    await until(lambda: wal(path) < WAL_LIMIT_BYTES)


async def test_a_closed_store_is_one_file(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([put(a_task())])
    await store.close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def test_closing_writes_what_waits(path: Path) -> None:
    store = SqliteStore.open(path)
    commits = [asyncio.ensure_future(store.commit([put(a_task(n))])) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*commits)
    again = SqliteStore.open(path)
    assert await again.task(a_task(49).id) == a_task(49)
    await again.close()
