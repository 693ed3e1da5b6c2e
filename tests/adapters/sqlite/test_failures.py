"""What the store says when the disk fails: unknown, full, or nothing happened (E17, E18)."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import time
from typing import TYPE_CHECKING

import apsw
import pytest

from aiosd.adapters.sqlite import SqliteStore, migrate
from aiosd.application.ports import CommitConflict, CommitUnknown, ReadFailed, StoreFull
from aiosd.application.writes import PutChunk
from aiosd.domain.artifact import StoredChunk
from aiosd.domain.content import Part, PartKind
from aiosd.domain.state import TaskState
from tests.contract.builders import a_chunk, a_task, put, status_events, update

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.adapters.sqlite.faulty_files import Faults


@pytest.mark.req("I05")
async def test_a_failed_sync_makes_the_whole_batch_unknown(
    faulty_store: SqliteStore, faults: Faults
) -> None:
    await faulty_store.commit([put(a_task(0))])
    faults.next_syncs = [apsw.IOError]
    commits = [faulty_store.commit([put(a_task(n))]) for n in range(1, 6)]
    answers = await asyncio.gather(*commits, return_exceptions=True)
    unknown = [answer for answer in answers if isinstance(answer, CommitUnknown)]
    assert unknown
    assert len(unknown) + answers.count(None) == 5
    assert isinstance(unknown[0].__cause__, apsw.IOError)


@pytest.mark.req("I05")
async def test_a_refusal_stays_a_refusal_in_a_batch_that_is_unknown(
    faulty_store: SqliteStore, faults: Faults
) -> None:
    await faulty_store.commit([put(a_task(0))])
    faults.next_syncs = [apsw.IOError] * 3
    refused = asyncio.ensure_future(faulty_store.commit([put(a_task(0))]))
    others = [faulty_store.commit([put(a_task(n))]) for n in range(1, 4)]
    answers = await asyncio.gather(refused, *others, return_exceptions=True)
    assert isinstance(answers[0], CommitConflict | CommitUnknown)
    assert any(isinstance(answer, CommitUnknown) for answer in answers)


async def test_the_store_is_degraded_until_a_write_succeeds(
    faulty_store: SqliteStore, faults: Faults
) -> None:
    task = a_task(1)
    await faulty_store.commit([put(task)])
    assert not faulty_store.health()
    faults.next_syncs = [apsw.IOError, apsw.IOError]
    for _ in range(2):
        with pytest.raises(CommitUnknown):
            await faulty_store.commit([update(task, state_reason="lost?")])
        assert list(faulty_store.health()) == ["store_failed"]
        assert await faulty_store.task(task.id) is not None, "reads go on"
    await faulty_store.commit([put(a_task(2))])
    assert not faulty_store.health()


async def test_counts_are_right_after_an_unknown_commit(
    faulty_store: SqliteStore, faults: Faults
) -> None:
    await faulty_store.commit([put(a_task(1)), put(a_task(2))])
    faults.next_syncs = [apsw.IOError]
    with pytest.raises(CommitUnknown):
        await faulty_store.commit([put(a_task(3)), update(a_task(1), state=TaskState.WORKING)])
    await faulty_store.commit([put(a_task(4))])
    for state in (TaskState.SUBMITTED, TaskState.WORKING):
        stored = [await faulty_store.task(a_task(n).id) for n in range(1, 5)]
        assert await faulty_store.count(state) == sum(
            task is not None and task.state is state for task in stored
        )


@pytest.mark.req("I06")
async def test_whichever_call_fails_the_file_stays_sound_and_answers_true(
    path: Path, faults: Faults
) -> None:
    """Fail the n-th write, for every n that a commit has; then look at what is there."""
    tasks = itertools.count(1)
    kinds: tuple[type[apsw.Error], ...] = (apsw.IOError, apsw.FullError)
    for kind, calls in itertools.product(kinds, ("next_syncs", "next_writes")):
        for nth in range(40):
            store = SqliteStore.open(path, vfs="faulty")
            task = a_task(next(tasks))
            setattr(faults, calls, [None] * nth + [kind])
            answer: type[Exception] | None = None
            try:
                await store.commit([put(task), status_events(task.id, *range(1, 30))])
            except (CommitUnknown, StoreFull) as error:
                answer = type(error)
            passed = bool(getattr(faults, calls))
            setattr(faults, calls, [])
            there = await store.task(task.id) is not None
            assert there or answer is not None
            if answer is StoreFull:
                assert not there
            await store.commit([put(a_task(next(tasks)))])
            await store.close()
            if answer is StoreFull or answer is None:
                again = SqliteStore.open(path, vfs="faulty")
                assert (await again.task(task.id) is not None) is there, "an answer holds for good"
                await again.close()
            if passed:
                break
        else:
            pytest.fail("a commit makes more calls than were tried")
    assert migrate.problems(path) == []


async def test_a_value_that_cannot_be_stored_fails_alone(store: SqliteStore) -> None:
    beside = asyncio.ensure_future(store.commit([put(a_task(1))]))
    with pytest.raises((TypeError, OverflowError)):
        await store.commit([put(a_task(2, state_reason="\ud800"))])
    with pytest.raises(OverflowError):
        await store.commit([put(a_task(3, start_time=2**63))])
    await beside
    assert not store.health()
    assert await store.count(TaskState.SUBMITTED) == 1


async def test_a_deleted_file_is_noticed(store: SqliteStore, path: Path) -> None:
    path.rename(path.with_suffix(".gone"))
    assert list(store.health()) == ["store_lost"]
    path.write_bytes(b"")
    assert list(store.health()) == ["store_lost"]
    path.with_suffix(".gone").replace(path)
    assert not store.health()


async def test_a_reader_that_fails_opens_again(store: SqliteStore) -> None:
    def break_it(connection: apsw.Connection) -> None:
        connection.execute("SELECT * FROM nothing")

    await store.commit([put(a_task())])
    for _ in range(5):
        with pytest.raises(ReadFailed):
            await store._readers.read(break_it)
        assert await store.task(a_task().id) == a_task()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _big(position: int, size: int) -> StoredChunk:
    return StoredChunk("art-1", 1, position, (Part(PartKind.RAW, raw=os.urandom(size)),))


@pytest.mark.req("I07")
async def test_a_full_disk_refuses_writes_answers_reads_and_recovers_by_itself(
    small_disk: Path,
) -> None:
    path = small_disk / "aiosd.db"
    ballast = small_disk / "ballast"
    store = SqliteStore.open(path)
    task = a_task(1)
    await store.commit([put(task)])
    ballast.write_bytes(b"x" * 1_500_000)
    stored = 0
    with pytest.raises(StoreFull):
        for stored in range(100):
            await store.commit([PutChunk(task.id, _big(stored, 60_000))])
    assert stored > 2
    assert list(store.health()) == ["store_full"]
    assert await store.task(task.id) == task
    chunks = await store.chunks(task.id, "art-1", 0, 200)
    assert [one.position for one in chunks] == list(range(stored))
    ballast.unlink()
    await store.commit([PutChunk(task.id, _big(stored, 60_000))])
    assert not store.health()
    await store.close()
    assert migrate.problems(path) == []


@pytest.mark.req("I07")
async def test_a_small_commit_still_fits_beside_one_that_does_not(small_disk: Path) -> None:
    store = SqliteStore.open(small_disk / "aiosd.db")
    task = a_task(1)
    await store.commit([put(task)])
    answers = await asyncio.gather(
        store.commit([put(a_task(2))]),
        store.commit([PutChunk(task.id, _big(0, 4_000_000))]),
        store.commit([put(a_task(3))]),
        return_exceptions=True,
    )
    assert answers[0] is None
    assert isinstance(answers[1], StoreFull)
    assert answers[2] is None
    assert await store.count(TaskState.SUBMITTED) == 3
    await store.commit([PutChunk(task.id, a_chunk())])
    assert not store.health()
    await store.close()


@pytest.mark.req("H22")
async def test_commits_do_not_mind_another_process_that_reads(
    store: SqliteStore, path: Path
) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN; SELECT count(*) FROM tasks").fetchall()
    await asyncio.gather(*(store.commit([put(a_task(n))]) for n in range(50)))
    assert other.execute("SELECT count(*) FROM tasks").get == 0, "its snapshot stands"
    other.execute("COMMIT")
    assert other.execute("SELECT count(*) FROM tasks").get == 50
    other.close()


@pytest.mark.req("H22")
async def test_commits_wait_for_another_process_that_writes(store: SqliteStore, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    commit = asyncio.ensure_future(store.commit([put(a_task())]))
    done, _ = await asyncio.wait({commit}, timeout=0.2)
    assert not done
    began = time.monotonic()
    other.execute("ROLLBACK")
    await commit
    assert time.monotonic() - began < 5
    other.close()
