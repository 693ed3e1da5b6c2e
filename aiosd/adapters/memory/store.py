"""A store without a disk: Store, Queue and Registry, exact and deterministic, gone at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from aiosd.adapters.glob import matches
from aiosd.adapters.memory import access, trust
from aiosd.adapters.memory.access import Access, AccessReads
from aiosd.adapters.memory.holdings import HoldingReads
from aiosd.adapters.memory.records import Records
from aiosd.adapters.memory.runtimes import RuntimeReads
from aiosd.adapters.memory.trust import TrustReads, TrustRecords
from aiosd.application.access_writes import DropGrant, PutGrant, PutToken
from aiosd.application.ports import ArtifactRecord, TaskOrder, TaskPage
from aiosd.application.trust_writes import (
    AddDelivery,
    AppendAudit,
    DropSecret,
    DropWebhook,
    PutSecret,
    PutWebhook,
    UpdateDelivery,
)
from aiosd.domain.state import TERMINAL, TaskState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiosd.adapters.memory.records import Record
    from aiosd.application.ports import TaskQuery
    from aiosd.application.writes import ClientSession, IdempotencyKey, Subscription, Write
    from aiosd.domain.artifact import Artifact, StoredChunk
    from aiosd.domain.capability import Capability
    from aiosd.domain.content import Message
    from aiosd.domain.event import Event
    from aiosd.domain.task import StateChange, Task

#: Told of each commit, when it is about to happen and when it has; what it raises, the commit
#: raises: CommitUnknown before is a commit that failed, CommitUnknown after one that succeeded.
Fault: TypeAlias = "Callable[[Sequence[Write]], Awaitable[None]]"

_OPEN = tuple(state for state in TaskState if state not in TERMINAL | {TaskState.SUBMITTED})


async def _pause(_: Sequence[Write]) -> None:
    await asyncio.sleep(0)


async def _nothing(_: Sequence[Write]) -> None:
    pass


class MemoryStore(RuntimeReads, TrustReads, AccessReads, HoldingReads):
    """Holds one await in each commit and none elsewhere, unless faults are injected."""

    def __init__(self, *, before: Fault = _pause, after: Fault = _nothing) -> None:
        self._records = Records()
        self._trust = TrustRecords()
        self._access = Access()
        self._before = before
        self._after = after

    async def close(self) -> None:
        """Nothing to let go of; what was stored stays readable."""

    def health(self) -> Sequence[str]:
        """Always well."""
        return ()

    # --- Store --------------------------------------------------------------------------------

    async def commit(self, writes: Sequence[Write]) -> None:
        """All or nothing."""
        await self._before(writes)
        self._records.begin()
        try:
            for write in writes:
                self._apply(write)
        except BaseException:
            self._records.undo()
            raise
        await self._after(writes)

    async def task(self, task_id: str) -> Task | None:
        """A task by id."""
        record = self._records.tasks.get(task_id)
        return None if record is None else record.task

    async def tasks(self, query: TaskQuery) -> TaskPage:
        """A page of tasks."""
        found = [
            record.task for record in self._records.tasks.values() if _wanted(query, record.task)
        ]
        total = len(found) if query.count else 0
        keyed = sorted(((_sort_key(query.order, task), task.id), task) for task in found)
        if query.after is not None:
            after = query.after
            keyed = [
                one for one in keyed if (one[0] > after if query.ascending else one[0] < after)
            ]
        if not query.ascending:
            keyed.reverse()
        end = query.skip + query.limit
        page = tuple(task for _, task in keyed[query.skip : end])
        return TaskPage(page, total, len(keyed) > end)

    async def events(self, task_id: str, after: int, limit: int) -> Sequence[Event]:
        """Events numbered above `after` in order, at most `limit`."""
        record = self._records.tasks.get(task_id)
        found = [] if record is None else [one for one in record.events if one > after]
        return [record.events[one] for one in sorted(found)[:limit]] if record else []

    async def history(self, task_id: str) -> Sequence[StateChange]:
        """Every state change in order."""
        record = self._records.tasks.get(task_id)
        return [record.history[one] for one in sorted(record.history)] if record else []

    async def artifacts(self, task_id: str) -> Sequence[Artifact]:
        """Artifacts of a task in order of creation."""
        record = self._records.tasks.get(task_id)
        return list(record.artifacts.values()) if record else []

    async def find_artifact(
        self, artifact_id: str, principals: Sequence[str], task_id: str
    ) -> ArtifactRecord | None:
        """The newest artifact of that id among these owners' tasks (empty: anybody's)."""
        found = [
            (record.artifacts[artifact_id].create_time, record.task.id, record)
            for record in self._records.tasks.values()
            if artifact_id in record.artifacts
            and (not principals or record.task.principal in principals)
            and (not task_id or record.task.id == task_id)
        ]
        if not found:
            return None
        _, owner, record = max(found, key=lambda one: one[:2])
        return ArtifactRecord(owner, record.artifacts[artifact_id])

    async def chunks(
        self, task_id: str, artifact_id: str, position: int, limit: int
    ) -> Sequence[StoredChunk]:
        """Chunks of the current version from `position` on, in order."""
        record = self._records.tasks.get(task_id)
        kept = record.chunks.values() if record else ()
        those = [one for one in kept if one.artifact_id == artifact_id]
        version = max((one.version for one in those), default=0)
        found = [one for one in those if one.version == version and one.position >= position]
        return sorted(found, key=lambda one: one.position)[:limit]

    async def messages(self, task_id: str, skip: int, limit: int) -> Sequence[Message]:
        """Message envelopes in order of their first insertion."""
        record = self._records.tasks.get(task_id)
        return list(record.messages.values())[skip : skip + limit] if record else []

    # --- Queue --------------------------------------------------------------------------------

    async def queued(self, capability_id: str, limit: int) -> Sequence[Task]:
        """SUBMITTED tasks of a capability, the next one to start first."""
        found = [
            task
            for task in self._in_state(TaskState.SUBMITTED)
            if task.request.capability_id == capability_id
        ]
        return sorted(found, key=lambda task: task.order)[:limit]

    async def open_tasks(self) -> Sequence[Task]:
        """Every task that is neither terminal nor SUBMITTED, by id."""
        found = [task for state in _OPEN for task in self._in_state(state)]
        return sorted(found, key=lambda task: task.id)

    async def due(self, until: int, limit: int) -> Sequence[tuple[int, str]]:
        """(due_time, task id) of open tasks due by `until`, soonest first."""
        states = (TaskState.SUBMITTED, *_OPEN)
        times = [(task.due_time(), task.id) for state in states for task in self._in_state(state)]
        return sorted(one for one in times if 0 < one[0] <= until)[:limit]

    async def count(self, state: TaskState) -> int:
        """How many tasks are in a state."""
        return len(self._records.by_state[state])

    async def expired(self, ended_before: int, limit: int) -> Sequence[str]:
        """Terminal tasks that ended before a time, oldest first."""
        ended = [
            (record.task.end_time, record.task.id)
            for record in self._records.tasks.values()
            if 0 < record.task.end_time < ended_before
        ]
        return [task_id for _, task_id in sorted(ended)[:limit]]

    async def forget(self, task_ids: Sequence[str], keys_before: int) -> None:
        """Delete terminal tasks with all they own, and idempotency keys older than a time."""
        await asyncio.sleep(0)
        for task_id in task_ids:
            if self._records.forget(task_id):
                self._trust.forget(task_id)
        keys = self._records.keys
        for name in [name for name, key in keys.items() if key.create_time < keys_before]:
            del keys[name]

    # --- Registry -----------------------------------------------------------------------------

    async def capabilities(self) -> Sequence[Capability]:
        """All that were ever offered, by id."""
        return [capability for _, capability in sorted(self._records.capabilities.items())]

    async def idempotency_key(self, principal: str, method: str, key: str) -> IdempotencyKey | None:
        """What a key stands for."""
        return self._records.keys.get((principal, method, key))

    async def subscription(self, subscription_id: str) -> Subscription | None:
        """A subscription by id."""
        return self._records.subscriptions.get(subscription_id)

    async def client_session(self, session_id: str) -> ClientSession | None:
        """A client session by id."""
        return self._records.client_sessions.get(session_id)

    def _apply(self, write: Write) -> None:
        match write:
            case PutGrant() | DropGrant() | PutToken():
                access.apply(self._records, self._access, write)
            case (
                PutWebhook()
                | DropWebhook()
                | AddDelivery()
                | UpdateDelivery()
                | PutSecret()
                | DropSecret()
                | AppendAudit()
            ):
                trust.apply(self._records, self._trust, write)
            case _:
                self._records.apply(write)

    def _in_state(self, state: TaskState) -> list[Task]:
        records: dict[str, Record] = self._records.by_state[state]
        return [record.task for record in records.values()]


def _wanted(query: TaskQuery, task: Task) -> bool:
    return (
        (not query.principals or task.principal in query.principals)
        and (not query.states or task.state in query.states)
        and (not query.capability or matches(query.capability, task.request.capability_id))
        and (not query.context_id or task.context_id == query.context_id)
        and (not query.created_since or task.create_time >= query.created_since)
        and (not query.created_until or task.create_time <= query.created_until)
        and (not query.state_since or task.state_time >= query.state_since)
    )


def _sort_key(order: TaskOrder, task: Task) -> int:
    return {
        TaskOrder.CREATE_TIME: task.create_time,
        TaskOrder.START_TIME: task.start_time,
        TaskOrder.UPDATE_TIME: task.update_time,
        TaskOrder.PRIORITY: int(task.options.priority),
        TaskOrder.STATE_TIME: task.state_time,
    }[order]
