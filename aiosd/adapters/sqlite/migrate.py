"""The schema, one numbered step after the other; forward only (I49)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import apsw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: "aios" in the file's header, so that nobody else's database is ever migrated.
APPLICATION_ID: Final = 0x61696F73
_STEP = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


class SchemaError(Exception):
    """The file is not ours, newer than this program, or was changed; it was not touched."""


@dataclass(frozen=True, slots=True)
class Step:
    """One migration: the version it leads to, and its SQL."""

    version: int
    sql: str

    @property
    def checksum(self) -> str:
        """Tells whether a step that was taken long ago is the one that we know."""
        return sha256(self.sql.encode()).hexdigest()


def steps() -> tuple[Step, ...]:
    """Every step there is, in order."""
    folder = files("aiosd.adapters.sqlite") / "migrations"
    found = []
    for entry in folder.iterdir():
        if match := _STEP.fullmatch(entry.name):
            found.append(Step(int(match[1]), entry.read_text("utf-8")))
    return tuple(sorted(found, key=lambda step: step.version))


def version(connection: apsw.Connection) -> int:
    """Of the file; 0 for an empty one."""
    number = connection.pragma("user_version")
    return number if isinstance(number, int) else 0


def check(connection: apsw.Connection, known: Sequence[Step]) -> int:
    """The version of a file that may be opened, migrated first if need be; reads only.

    Raises SchemaError.
    """
    at = version(connection)
    name = connection.pragma("application_id")
    if at == 0:
        if name or connection.execute("SELECT count(*) FROM sqlite_schema").get:
            raise SchemaError("the file is a database of another program")
        return 0
    if name != APPLICATION_ID:
        raise SchemaError("the file is a database of another program")
    newest = known[-1].version
    if at > newest:
        raise SchemaError(
            f"the database has schema version {at}; this aiosd knows versions up to {newest}:"
            " use the newer aiosd, or restore the backup that it made"
        )
    taken = dict(connection.execute("SELECT version, checksum FROM schema_steps"))
    for step in known[:at]:
        if taken.get(step.version) != step.checksum:
            raise SchemaError(f"step {step.version} of the database's schema is not the known one")
    return at


def migrate(connection: apsw.Connection, path: Path, known: Sequence[Step] | None = None) -> None:
    """Bring the file to the newest version, each step in a transaction; a backup comes first.

    The backup of version n is `<name>.v<n>.backup` beside the file. Raises SchemaError.
    """
    known = steps() if known is None else known
    at = check(connection, known)
    if at and at < known[-1].version:
        back_up(connection, path.with_name(f"{path.name}.v{at}.backup"))
    for step in known[at:]:
        take(connection, step)


def take(connection: apsw.Connection, step: Step) -> None:
    """Take one step: all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if step.version == 1:
            connection.execute(
                "CREATE TABLE schema_steps (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL)"
                " STRICT"
            )
            connection.pragma("application_id", APPLICATION_ID)
        connection.execute(step.sql)
        connection.execute("INSERT INTO schema_steps VALUES (?, ?)", (step.version, step.checksum))
        connection.pragma("user_version", step.version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def back_up(connection: apsw.Connection, target: Path) -> None:
    """Copy the whole database to a new private file, durably.

    Never a file copy: opening and closing the database's file drops SQLite's locks (E25).
    """
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    copy = apsw.Connection(str(partial))
    try:
        with copy.backup("main", connection, "main") as backup:
            while not backup.done:
                backup.step(1_000)
        copy.pragma("journal_mode", "delete")  # the copy is one file
    finally:
        copy.close()
    partial.replace(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def problems(path: Path) -> list[str]:
    """What `aiosctl doctor` has to say of a database; empty when it is sound (I06)."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error as error:
        return [f"cannot be opened: {error}"]
    try:
        check(connection, steps())
        found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(100)")]
        lost = [
            f"a row of {table} refers to a {parent} that is gone"
            for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check")
        ]
        return [line for line in found if line != "ok"] + lost
    except (SchemaError, apsw.Error) as error:
        return [str(error)]
    finally:
        connection.close()
