"""Keeps the write-ahead log short without making a commit wait for it (H23)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

import apsw

from aiosd.adapters.sqlite.connection import WAL_LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

#: A log that nobody adds to is moved into the database too, but not at once.
IDLE_LIMIT_BYTES: Final = 4 * 1024 * 1024
IDLE_S: Final = 5.0
#: A reader may pin the log; then the next try waits until it has grown by this much, or is idle.
RETRY_BYTES: Final = 4 * 1024 * 1024
FREE_TIMEOUT_MS: Final = 1_000


log = logging.getLogger("aiosd.store")


class Log:
    """A thread and a connection that checkpoint.

    `gate` is held by whoever writes a batch or cuts the log, so that neither waits inside SQLite,
    which would poll. Threads that are not needed sleep without a timer.
    """

    def __init__(self, open_connection: Callable[[], apsw.Connection]) -> None:
        self.gate = threading.Lock()
        self._stuck = False
        self._open = open_connection
        self._size = 0
        self._limit = WAL_LIMIT_BYTES
        self._stopping = False
        self._changed = threading.Condition()
        # Opened now, so that no reader is ever the last to close: that one tidies up the log.
        self._connection: apsw.Connection | None = open_connection()
        self._thread = threading.Thread(target=self._run, name="store-log", daemon=True)
        self._thread.start()

    @property
    def health(self) -> str:
        """`log_long` while the log is longer than it should be and cannot be cut."""
        return "log_long" if self._stuck and self._size >= WAL_LIMIT_BYTES else ""

    def grew(self, size: int) -> None:
        """The log has this many bytes now; called by the writer after each batch."""
        crossed = size >= self._limit or self._size < IDLE_LIMIT_BYTES <= size
        self._size = size
        if crossed:
            with self._changed:
                self._changed.notify()

    def free(self) -> None:
        """Cut the log now, by the writer inside its gate, because it found no room (E18)."""
        try:
            connection = self._open()
        except apsw.Error as error:
            self._failed(error)
            return
        try:
            connection.set_busy_timeout(FREE_TIMEOUT_MS)
            self._cut(connection)
        finally:
            connection.close(True)

    def stop(self) -> None:
        """Move what is left and end; blocks until then. The writer must have stopped."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        self._checkpoint()
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None

    def _run(self) -> None:
        while self._wanted():
            self._checkpoint()

    def _wanted(self) -> bool:
        """Sleep until there is something to move; False when it is time to end."""
        with self._changed:
            while not self._stopping:
                seen = self._size
                if seen >= self._limit:
                    return True
                woken = self._changed.wait(IDLE_S if seen >= IDLE_LIMIT_BYTES else None)
                if not woken and self._size == seen:
                    return True
            return False

    def _checkpoint(self) -> None:
        """First what writers do not notice, then the cut, which they must wait for."""
        try:
            if self._connection is None:
                self._connection = self._open()
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            with self.gate:
                self._cut(self._connection)
        except apsw.Error as error:
            self._failed(error)
            if self._connection is not None:
                self._connection.close(True)
                self._connection = None

    def _cut(self, connection: apsw.Connection) -> None:
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            self._stuck = True
            self._limit = self._size + RETRY_BYTES
        except apsw.Error as error:
            self._failed(error)
        else:
            self._stuck = False
            self._size = 0
            self._limit = WAL_LIMIT_BYTES

    def _failed(self, error: apsw.Error) -> None:
        log.error("store.checkpoint_failed", exc_info=error)
        self._stuck = True
        self._limit = self._size + RETRY_BYTES
