"""The one thread that writes: whatever commits wait become one transaction and one fsync.

No commit lingers for others: a batch is what came in while the batch before it was synced. Each
commit has a savepoint of its own, so a refused one does not hurt its neighbours.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

import apsw

from aiosd.adapters.sqlite.transaction import (
    Change,
    CountKey,
    Transaction,
    load_counts,
    store_counts,
)
from aiosd.application.ports import CommitConflict, CommitUnknown, StoreFull

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.adapters.sqlite.log import Log

MAX_BATCH: Final = 512

log = logging.getLogger("aiosd.store")


@dataclass(slots=True)
class Commit:
    """Changes that wait for the writer, and who waits for them."""

    changes: Sequence[Change]
    future: asyncio.Future[None]
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a batch. `counts` are differences, or all of them when `anew` is set."""

    commits: Sequence[Commit]
    counts: Counter[CountKey]
    anew: bool = False


Deliver: TypeAlias = "Callable[[Answer], None]"


class Writer:
    """Owns the writing connection; `health` is a word for what is wrong, or empty."""

    def __init__(
        self,
        connection: apsw.Connection,
        reopen: Callable[[], apsw.Connection],
        log: Log,
        deliver: Deliver,
        audit_key: bytes,
    ) -> None:
        self.health = ""
        self._connection: apsw.Connection | None = None
        self._reopen = reopen
        self._log = log
        self._deliver = deliver
        self._audit_key = audit_key
        self._waiting: SimpleQueue[Commit | None] = SimpleQueue()
        self._use(connection)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, commit: Commit) -> None:
        """Hand a commit over; its future is answered through `deliver`."""
        self._waiting.put(commit)

    def stop(self) -> None:
        """Write what waits, then end; blocks until then."""
        self._waiting.put(None)
        self._thread.join()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            last = False
            while len(batch) < MAX_BATCH:
                try:
                    following = self._waiting.get_nowait()
                except Empty:
                    break
                if following is None:
                    last = True
                    break
                batch.append(following)
            with self._log.gate:
                answer = self._write(batch)
            self._deliver(answer)
            if last:
                return

    def _write(self, batch: list[Commit]) -> Answer:
        anew = self._connection is None
        try:
            connection = self._opened()
            before = load_counts(connection) if anew else Counter()
            try:
                counts = self._transact(connection, batch)
            except _Full:
                # The log may hold room that a checkpoint frees; then small commits fit again.
                self._log.free()
                counts = self._one_by_one(connection, batch)
        except Exception as error:
            self._fail(batch, error)
            return Answer(batch, Counter())
        before.update(counts)
        return Answer(batch, before, anew)

    def _opened(self) -> apsw.Connection:
        return self._connection or self._use(self._reopen())

    def _use(self, connection: apsw.Connection) -> apsw.Connection:
        page = connection.pragma("page_size")

        def grown(_: object, __: object, pages: int) -> int:
            self._log.grew(pages * page)
            return apsw.SQLITE_OK

        connection.set_wal_hook(grown)
        self._connection = connection
        return connection

    def _transact(self, connection: apsw.Connection, batch: Sequence[Commit]) -> Counter[CountKey]:
        """One transaction; raises _Full with no effect, or whatever makes the outcome unknown."""
        counts: Counter[CountKey] = Counter()
        execute = connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for commit in batch:
                counts.update(_apply(Transaction(connection, self._audit_key), connection, commit))
            store_counts(execute, counts)
        except apsw.Error as error:
            if connection.in_transaction:
                execute("ROLLBACK")
            if _is_full(connection, error):
                raise _Full from error
            raise
        try:
            execute("COMMIT")
        except apsw.FullError as error:
            # The frame that ends the transaction was not written, so it never happened.
            if connection.in_transaction:
                execute("ROLLBACK")
            raise _Full from error
        self.health = ""
        return counts

    def _one_by_one(self, connection: apsw.Connection, batch: list[Commit]) -> Counter[CountKey]:
        counts: Counter[CountKey] = Counter()
        full = False
        for commit in batch:
            commit.error = None
            try:
                counts.update(self._transact(connection, [commit]))
            except _Full as error:
                full = True
                commit.error = StoreFull("there is no room left in the store")
                commit.error.__cause__ = error.__cause__
        if full:
            self.health = "store_full"
        return counts

    def _fail(self, batch: list[Commit], error: Exception) -> None:
        """Nobody knows what became of the batch; go on with a new connection (E17)."""
        self.health = "store_failed"
        log.error("store.commit_failed", exc_info=error)
        for commit in batch:
            if commit.error is None:
                commit.error = CommitUnknown("the store failed at the commit")
                commit.error.__cause__ = error
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None


class _Full(Exception):
    """No room; rolled back."""


def _apply(tx: Transaction, connection: apsw.Connection, commit: Commit) -> Counter[CountKey]:
    """The changes of one commit within the batch; a refusal undoes them and only them."""
    connection.execute("SAVEPOINT one")
    try:
        for change in commit.changes:
            change(tx)
    except apsw.ConstraintError as error:
        commit.error = CommitConflict(str(error))
        commit.error.__cause__ = error
    except apsw.Error:
        raise  # SQLite's own trouble is that of the whole batch
    except Exception as error:
        commit.error = error
    if commit.error is not None:
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return Counter()
    connection.execute("RELEASE one")
    return tx.counts


def _is_full(connection: apsw.Connection, error: apsw.Error) -> bool:
    """Whether a statement before the commit found no room."""
    if isinstance(error, apsw.IOError):
        return connection.system_errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, apsw.FullError)
