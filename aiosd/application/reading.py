"""Lists, artifacts and messages: what callers read besides one task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aiosd.application.access import own, waits_for_approval
from aiosd.application.errors import ArtifactNotFound, ArtifactTooLarge
from aiosd.application.ports import TaskPage
from aiosd.domain.artifact import Artifact
from aiosd.domain.state import TaskState
from aiosd.domain.task import Task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from aiosd.application.access import Caller
    from aiosd.application.ledger import Ledger
    from aiosd.application.ports import ArtifactRecord, Store, TaskQuery
    from aiosd.domain.artifact import StoredChunk
    from aiosd.domain.content import Message, Part
    from aiosd.domain.task import StateChange

#: What fits into one answer with room for the rest of it (S-21).
LARGEST_ANSWER = 3_500_000
PAGE = 64
APPROVE = "permission:approve"
#: States in which a task may wait for somebody.
WAITING = (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)


@dataclass(frozen=True, slots=True)
class Owned:
    """An artifact and its task."""

    task: Task
    artifact: Artifact


class Reading:
    """Reads that go to the store; every one of them asks whose the task is."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger

    async def tasks(self, caller: Caller, query: TaskQuery) -> TaskPage:
        """A page of the caller's tasks."""
        caller.require("task:read")
        return await self._store.tasks(replace(query, principals=(caller.principal,)))

    async def waiting(self, caller: Caller, query: TaskQuery) -> TaskPage:
        """A page of the tasks that wait for this caller: its own, and whatever it may approve.

        `query.states` may narrow it further; `total` is that of the page.
        """
        approver = caller.may(APPROVE)
        if not approver:
            caller.require("task:read")
        states = tuple(one for one in WAITING if one in (query.states or (one,)))
        asked = replace(
            query,
            principals=() if approver else (caller.principal,),
            states=states,
            limit=PAGE,
            skip=0,
            count=False,
        )
        found: list[Task] = []
        while states:
            page = await self._store.tasks(asked)
            found += [one for one in page.tasks if _waits_for(caller, one)]
            if len(found) > query.skip + query.limit or not page.more:
                break
            last = page.tasks[-1]
            asked = replace(asked, after=(query.order.of(last), last.id))
        found = found[query.skip :]
        kept = tuple(found[: query.limit])
        return TaskPage(kept, len(kept) if query.count else 0, len(found) > query.limit)

    async def history(self, task: Task) -> Sequence[StateChange]:
        """Every state change of a task that was read for its owner."""
        return await self._store.history(task.id)

    async def artifacts_of(self, task: Task) -> Sequence[Artifact]:
        """Summaries of a task that was read for its owner."""
        return await self._store.artifacts(task.id) if task.artifact_count else ()

    async def artifacts(self, caller: Caller, task_id: str) -> Sequence[Artifact]:
        """Summaries of the artifacts of a task."""
        caller.require("task:read")
        task = own(caller, await self._ledger.load(task_id))
        return await self.artifacts_of(task)

    async def find_artifact(self, caller: Caller, artifact_id: str, task_id: str) -> Owned:
        """An artifact by id; the newest if several tasks of the caller use the id."""
        caller.require("task:read")
        if not caller.principal:
            raise ArtifactNotFound
        record: ArtifactRecord | None = await self._store.find_artifact(
            artifact_id, (caller.principal,), task_id
        )
        if record is None:
            raise ArtifactNotFound
        return Owned(own(caller, await self._ledger.load(record.task_id)), record.artifact)

    async def content(self, owned: Owned) -> tuple[Part, ...]:
        """All parts; raises ArtifactTooLarge for what must be streamed."""
        if owned.artifact.size_bytes > LARGEST_ANSWER:
            raise ArtifactTooLarge(
                "the artifact does not fit into one answer; stream it",
                {"size_bytes": str(owned.artifact.size_bytes)},
            )
        chunks = [one async for one in self.chunks(owned, 0)]
        return tuple(part for chunk in chunks for part in chunk.parts)

    async def chunks(self, owned: Owned, position: int) -> AsyncIterator[StoredChunk]:
        """Chunks from a position on, in order."""
        while position < owned.artifact.chunk_count:
            page = await self._store.chunks(
                owned.task.id, owned.artifact.artifact_id, position, PAGE
            )
            if not page:
                return
            for chunk in page:
                yield chunk
            position = page[-1].position + 1

    async def messages(
        self, caller: Caller, task_id: str, skip: int, limit: int
    ) -> Sequence[Message]:
        """Message envelopes in order."""
        caller.require("task:read")
        task = own(caller, await self._ledger.load(task_id))
        return await self._store.messages(task.id, skip, limit)


def _waits_for(caller: Caller, task: Task) -> bool:
    if task.resume_pending:
        return False
    if waits_for_approval(task):
        return caller.may(APPROVE)
    return task.principal == caller.principal and caller.may("task:read")
