"""Connections with every setting spelled out: SQLite's defaults are for other programs (E15)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import apsw

if TYPE_CHECKING:
    from pathlib import Path

BUSY_TIMEOUT_MS: Final = 5_000
WAL_LIMIT_BYTES: Final = 16 * 1024 * 1024
CACHE_KIB: Final = 16 * 1024

# SQLite's own default; it is the name that the operating system's files go by.
DEFAULT_VFS: Final = ""


def create_private(path: Path) -> None:
    """Make the file readable by its owner only, before SQLite does it by its own rules (S-30).

    To be called before any connection is open: closing a descriptor of the file drops SQLite's
    locks (E25). The -wal and -shm files take over the mode.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.close(descriptor)


def open_writer(path: Path, vfs: str = DEFAULT_VFS) -> apsw.Connection:
    """The connection that writes: durable at each commit, and never the one that checkpoints."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs or None, statementcachesize=200)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("foreign_keys", True)
        connection.pragma("secure_delete", True)
        connection.pragma("wal_autocheckpoint", 0)
        connection.pragma("journal_size_limit", WAL_LIMIT_BYTES)
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("temp_store", "memory")
    except BaseException:
        connection.close()
        raise
    return connection


def open_untouched(path: Path, vfs: str = DEFAULT_VFS) -> apsw.Connection:
    """A connection to look with: whatever the file is, neither it nor its log is changed."""
    connection = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None, statementcachesize=0
    )
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def open_checkpointer(path: Path, vfs: str = DEFAULT_VFS) -> apsw.Connection:
    """The connection that moves the log into the database; gives way to readers quickly."""
    connection = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs or None, statementcachesize=0
    )
    connection.set_busy_timeout(50)
    connection.pragma("synchronous", "full")
    connection.pragma("journal_size_limit", WAL_LIMIT_BYTES)
    return connection


def open_reader(path: Path, vfs: str = DEFAULT_VFS) -> apsw.Connection:
    """A connection that cannot write; the writer must be open already."""
    connection = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs or None, statementcachesize=200
    )
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.pragma("query_only", True)
    connection.pragma("cache_size", -CACHE_KIB)
    connection.pragma("temp_store", "memory")
    return connection
