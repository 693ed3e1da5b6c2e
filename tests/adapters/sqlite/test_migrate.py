"""Files of every age open, are ours alone, and are backed up before they change (I49)."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import apsw
import pytest

from aiosd.adapters.sqlite import SqliteStore, connection, migrate
from tests.contract.builders import a_task, put, submitted

SCHEMA = Path(__file__).parent / "schema.sql"


def migrated(path: Path, steps: tuple[migrate.Step, ...]) -> apsw.Connection:
    opened = connection.open_writer(path)
    migrate.migrate(opened, path, steps)
    return opened


def schema_of(opened: apsw.Connection) -> str:
    found = opened.execute("SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY type, name")
    return "\n\n".join(f"{sql};" for (sql,) in found) + "\n"


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def later(*sql: str) -> tuple[migrate.Step, ...]:
    """The known steps and further ones."""
    known = migrate.steps()
    return (*known, *(migrate.Step(known[-1].version + n, text) for n, text in enumerate(sql, 1)))


def test_steps_are_numbered_without_gaps() -> None:
    versions = [step.version for step in migrate.steps()]
    assert versions == list(range(1, len(versions) + 1))


def test_the_migrations_together_make_the_schema(path: Path) -> None:
    opened = migrated(path, migrate.steps())
    schema = schema_of(opened)
    if os.environ.get("UPDATE_GOLDEN"):
        SCHEMA.write_text(schema, "utf-8")
    assert schema == SCHEMA.read_text("utf-8"), "read the difference, then UPDATE_GOLDEN=1"
    assert migrate.version(opened) == migrate.steps()[-1].version
    opened.close()


@pytest.mark.req("I49")
@pytest.mark.parametrize("version", range(1, len(migrate.steps())))
def test_a_file_of_every_older_version_becomes_the_same(path: Path, version: int) -> None:
    migrated(path, migrate.steps()[:version]).close()
    opened = migrated(path, migrate.steps())
    fresh = migrated(path.with_name("fresh.db"), migrate.steps())
    assert schema_of(opened) == schema_of(fresh)
    opened.close()
    fresh.close()


@pytest.mark.req("I49")
async def test_a_backup_is_made_before_an_older_file_is_changed(path: Path) -> None:
    store = SqliteStore.open(path)
    task, writes = submitted()
    await store.commit(writes)
    await store.close()
    at = migrate.steps()[-1].version
    migrated(path, later("CREATE TABLE added (x INTEGER) STRICT")).close()
    backup = path.with_name(f"{path.name}.v{at}.backup")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert migrate.problems(backup) == []
    restored = SqliteStore.open(backup)
    assert await restored.task(task.id) == task
    await restored.close()


def test_no_backup_is_made_of_a_new_file(path: Path) -> None:
    migrated(path, later("CREATE TABLE added (x INTEGER) STRICT")).close()
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.req("I49")
async def test_a_newer_file_is_refused_untouched(path: Path) -> None:
    migrated(path, later("CREATE TABLE added (x INTEGER) STRICT")).close()
    before = fingerprint(path)
    with pytest.raises(migrate.SchemaError, match="schema version"):
        SqliteStore.open(path)
    assert fingerprint(path) == before
    assert not list(path.parent.glob("*.backup"))


@pytest.mark.req("I49")
async def test_a_newer_file_with_a_log_that_nobody_moved_is_refused_untouched(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    opened = migrated(path, later("CREATE TABLE added (x INTEGER) STRICT"))
    content = {one: one.read_bytes() for one in (path, log)}
    opened.close()
    for one, was in content.items():
        one.write_bytes(was)  # as a crash leaves them
    with pytest.raises(migrate.SchemaError, match="schema version"):
        SqliteStore.open(path)
    assert {one: one.read_bytes() for one in (path, log)} == content


async def test_a_database_of_another_program_is_refused_untouched(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = fingerprint(path)
    with pytest.raises(migrate.SchemaError, match="another program"):
        SqliteStore.open(path)
    assert fingerprint(path) == before


async def test_a_file_that_is_no_database_is_refused_untouched(path: Path) -> None:
    path.write_text("not a database, but quite long " * 200)
    before = fingerprint(path)
    with pytest.raises((migrate.SchemaError, apsw.Error)):
        SqliteStore.open(path)
    assert fingerprint(path) == before


async def test_a_changed_step_is_refused(path: Path) -> None:
    opened = migrated(path, migrate.steps())
    opened.execute("UPDATE schema_steps SET checksum = 'x' WHERE version = 1")
    opened.close()
    with pytest.raises(migrate.SchemaError, match="step 1"):
        SqliteStore.open(path)


def test_a_step_that_fails_leaves_the_file_at_the_step_before(path: Path) -> None:
    steps = later("CREATE TABLE first (x) STRICT; CREATE TABLE first (x)")
    opened = migrated(path, migrate.steps())
    before = schema_of(opened)
    with pytest.raises(apsw.Error):
        migrate.migrate(opened, path, steps)
    assert migrate.version(opened) == migrate.steps()[-1].version
    assert schema_of(opened) == before
    opened.close()


@pytest.mark.req("S-30")
async def test_every_file_is_private(path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore.open(path)
        await store.commit([put(a_task())])
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert len(modes) == 3
    await store.close()


async def test_damage_is_found(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit([put(a_task(n)) for n in range(2_000)])
    await store.close()
    assert migrate.problems(path) == []
    with path.open("r+b") as file:
        file.seek(200_000)
        file.write(os.urandom(50_000))
    assert migrate.problems(path) != []


def test_a_missing_file_is_told(path: Path) -> None:
    assert "cannot be opened" in migrate.problems(path)[0]
    assert not path.exists()
