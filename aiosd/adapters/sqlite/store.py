"""SQLite as Store, Queue and Registry: one writer thread, a few readers, one that trims the log."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

from aiosd.adapters.sqlite import changes, connection, listing, migrate, queries, transaction
from aiosd.adapters.sqlite.access import AccessReads
from aiosd.adapters.sqlite.holdings import HoldingReads
from aiosd.adapters.sqlite.log import Log
from aiosd.adapters.sqlite.outbox import OutboxReads
from aiosd.adapters.sqlite.readers import Readers
from aiosd.adapters.sqlite.runtimes import RuntimeReads
from aiosd.adapters.sqlite.trail import TrailReads
from aiosd.adapters.sqlite.writer import Answer, Commit, Writer

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence
    from pathlib import Path

    import apsw

    from aiosd.adapters.sqlite.transaction import Change, CountKey
    from aiosd.application.ports import ArtifactRecord, TaskPage, TaskQuery
    from aiosd.application.writes import ClientSession, IdempotencyKey, Subscription, Write
    from aiosd.domain.artifact import Artifact, StoredChunk
    from aiosd.domain.capability import Capability
    from aiosd.domain.content import Message
    from aiosd.domain.event import Event
    from aiosd.domain.state import TaskState
    from aiosd.domain.task import StateChange, Task


class SqliteStore(RuntimeReads, OutboxReads, TrailReads, AccessReads, HoldingReads):
    """The durable store of one machine; belongs to one event loop.

    A task must be inserted before what it owns, within a commit too; what names a task that does
    not exist is refused with CommitConflict. A task's request, owner and context never change.
    """

    def __init__(
        self, path: Path, writing: apsw.Connection, vfs: str, audit_key: bytes = b""
    ) -> None:
        self._path = path
        self._closed = False
        self._inode = path.stat().st_ino
        self._counts: Counter[CountKey] = transaction.load_counts(writing)
        self._states = listing.states_of(self._counts)
        self._log = Log(partial(connection.open_checkpointer, path, vfs))
        self._readers = Readers(partial(connection.open_reader, path, vfs))
        self._writer = Writer(
            writing,
            partial(connection.open_writer, path, vfs),
            self._log,
            self._deliver,
            audit_key,
        )

    @classmethod
    def open(cls, path: Path, *, vfs: str = connection.DEFAULT_VFS, audit_key: bytes = b"") -> Self:
        """Create or open the database file and bring its schema up to date; blocks.

        Raises SchemaError for a file that is not ours or is newer, apsw.Error or OSError when it
        cannot be opened. `vfs` names a registered SQLite VFS; `audit_key`
        seals the audit chain.
        """
        connection.create_private(path)
        looking = connection.open_untouched(path, vfs)
        try:
            migrate.check(looking, migrate.steps())
        finally:
            looking.close(True)
        writing = connection.open_writer(path, vfs)
        try:
            migrate.migrate(writing, path)
            return cls(path, writing, vfs, audit_key)
        except BaseException:
            writing.close(True)
            raise

    async def close(self) -> None:
        """Write and answer what waits, then let go of the file; nothing may be asked any more."""
        self._closed = True
        await asyncio.to_thread(self._stop)

    def health(self) -> Sequence[str]:
        """Words for what is wrong, most serious first; empty when all is well.

        store_lost: the database file was moved or deleted, what is written goes nowhere (E25).
        store_failed: the last commit failed. store_full: it found no room. log_long: the log
        cannot be cut, because a reader holds on to it or the disk fails (H23).
        """
        words = [self._writer.health, self._log.health]
        lost = True
        with suppress(OSError):
            lost = self._path.stat().st_ino != self._inode
        return [word for word in ("store_lost" if lost else "", *words) if word]

    # --- Store --------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> None:
        """All or nothing; returns once durable."""
        await self._commit(changes.encode(writes))

    async def task(self, task_id: str) -> Task | None:
        """A task by id."""
        return await self._readers.read(partial(queries.task, task_id=task_id))

    async def tasks(self, query: TaskQuery) -> TaskPage:
        """A page of tasks."""
        within = listing.scope(query, self._counts)
        return await self._readers.read(partial(listing.page, query=query, within=within))

    async def events(self, task_id: str, after: int, limit: int) -> Sequence[Event]:
        """Events numbered above `after` in order, at most `limit`."""
        return await self._readers.read(
            partial(queries.events, task_id=task_id, after=after, limit=limit)
        )

    async def history(self, task_id: str) -> Sequence[StateChange]:
        """Every state change in order."""
        return await self._readers.read(partial(queries.history, task_id=task_id))

    async def artifacts(self, task_id: str) -> Sequence[Artifact]:
        """Artifacts of a task in order of creation."""
        return await self._readers.read(partial(queries.artifacts, task_id=task_id))

    async def find_artifact(
        self, artifact_id: str, principals: Sequence[str], task_id: str
    ) -> ArtifactRecord | None:
        """The newest artifact of that id among these owners' tasks (empty: anybody's)."""
        return await self._readers.read(
            partial(
                queries.find_artifact,
                artifact_id=artifact_id,
                principals=principals,
                task_id=task_id,
            )
        )

    async def chunks(
        self, task_id: str, artifact_id: str, position: int, limit: int
    ) -> Sequence[StoredChunk]:
        """Chunks of the current version from `position` on, in order."""
        return await self._readers.read(
            partial(
                queries.chunks,
                task_id=task_id,
                artifact_id=artifact_id,
                position=position,
                limit=limit,
            )
        )

    async def messages(self, task_id: str, skip: int, limit: int) -> Sequence[Message]:
        """Message envelopes in order of their first insertion."""
        return await self._readers.read(
            partial(queries.messages, task_id=task_id, skip=skip, limit=limit)
        )

    # --- Queue --------------------------------------------------------------------------------

    async def queued(self, capability_id: str, limit: int) -> Sequence[Task]:
        """SUBMITTED tasks of a capability, the next one to start first."""
        return await self._readers.read(
            partial(queries.queued, capability_id=capability_id, limit=limit)
        )

    async def open_tasks(self) -> Sequence[Task]:
        """Every task that is neither terminal nor SUBMITTED."""
        return await self._readers.read(queries.open_tasks)

    async def due(self, until: int, limit: int) -> Sequence[tuple[int, str]]:
        """(due_time, task id) of open tasks due by `until`, soonest first."""
        return await self._readers.read(partial(queries.due, until=until, limit=limit))

    async def count(self, state: TaskState) -> int:
        """How many tasks are in a state; costs nothing."""
        return self._states[state]

    async def expired(self, ended_before: int, limit: int) -> Sequence[str]:
        """Terminal tasks that ended before a time, oldest first."""
        return await self._readers.read(
            partial(queries.expired, ended_before=ended_before, limit=limit)
        )

    async def forget(self, task_ids: Sequence[str], keys_before: int) -> None:
        """Delete terminal tasks with all they own, and idempotency keys older than a time."""
        await self._commit([changes.forget(tuple(task_ids), keys_before)])

    # --- Registry -----------------------------------------------------------------------------

    async def capabilities(self) -> Sequence[Capability]:
        """All that were ever offered, by id."""
        return await self._readers.read(queries.capabilities)

    async def idempotency_key(self, principal: str, method: str, key: str) -> IdempotencyKey | None:
        """What a key stands for."""
        return await self._readers.read(
            partial(queries.idempotency_key, principal=principal, method=method, key=key)
        )

    async def subscription(self, subscription_id: str) -> Subscription | None:
        """A subscription by id."""
        return await self._readers.read(
            partial(queries.subscription, subscription_id=subscription_id)
        )

    async def client_session(self, session_id: str) -> ClientSession | None:
        """A client session by id."""
        return await self._readers.read(partial(queries.client_session, session_id=session_id))

    # --- the writer's answers -----------------------------------------------------------------

    async def _commit(self, encoded: Sequence[Change]) -> None:
        if self._closed:
            raise RuntimeError("the store is closed")
        future = asyncio.get_running_loop().create_future()
        self._writer.submit(Commit(encoded, future))
        await future

    def _deliver(self, answer: Answer) -> None:
        """On the writer's thread: wake the loop once for the whole batch."""
        loop = answer.commits[0].future.get_loop()
        with suppress(RuntimeError):  # the loop is closed, nobody waits any more
            loop.call_soon_threadsafe(self._answer, answer)

    def _answer(self, answer: Answer) -> None:
        """On the loop: counts first, so that whoever is answered reads them changed."""
        if answer.anew:
            self._counts = answer.counts
            self._states = listing.states_of(answer.counts)
        else:
            self._counts.update(answer.counts)
            self._states.update(listing.states_of(answer.counts))
        for commit in answer.commits:
            if commit.future.done():
                continue
            if commit.error is None:
                commit.future.set_result(None)
            else:
                commit.future.set_exception(commit.error)

    def _stop(self) -> None:
        self._writer.stop()
        self._readers.stop()
        self._log.stop()
