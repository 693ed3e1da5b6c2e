"""What the use cases need of the world. Each port has a contract suite that its adapters pass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from aiosd.domain.artifact import Artifact
from aiosd.domain.state import TaskState
from aiosd.domain.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.writes import ClientSession, IdempotencyKey, Subscription, Write
    from aiosd.domain.artifact import StoredChunk
    from aiosd.domain.capability import Capability
    from aiosd.domain.content import Message
    from aiosd.domain.event import Event
    from aiosd.domain.instance import Instance
    from aiosd.domain.operation import Operation, OperationEvent
    from aiosd.domain.task import StateChange


class CommitConflict(Exception):
    """Refused with no effect: a revision moved on, or a key or an id is taken."""


class CommitUnknown(Exception):
    """The store failed at the commit: it may or may not have happened (E17). Never a refusal."""


class StoreFull(Exception):
    """No room; certainly no effect (E18, I07)."""


class ReadFailed(Exception):
    """The store could not be read just now; says nothing about what is in it."""


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> int:
        """Milliseconds since the epoch; never jumps back while the process lives (I48)."""
        ...


class Ids(Protocol):
    """Identities, injected."""

    def new(self, prefix: str) -> str:
        """A unique id such as `task-<32 hex digits>`; later ones sort later."""
        ...

    def secret(self) -> str:
        """256 random bits as URL-safe text."""
        ...


class Schemas(Protocol):
    """JSON Schema, draft 2020-12; never fetches anything."""

    def check(self, schema: str) -> str:
        """Empty if `schema` is a usable schema, else one sentence that says why not."""
        ...

    def problem(self, schema: str, instance: object) -> str:
        """Empty if the instance satisfies the schema, else one sentence that names the place."""
        ...


class TaskOrder(StrEnum):
    """What a list is sorted by; the id breaks ties."""

    CREATE_TIME = "create_time"
    START_TIME = "start_time"
    UPDATE_TIME = "update_time"
    PRIORITY = "priority"
    STATE_TIME = "state_time"

    def of(self, task: Task) -> int:
        """The value that a task is sorted by."""
        found = task.options.priority if self is TaskOrder.PRIORITY else getattr(task, self.value)
        return int(found)


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Filters joined by AND; empty or 0 means no filter. Bounds are inclusive.

    `after` is the (sort value, id) of the last row of the page before. `capability` may hold `*`
    for any text. `principals` empty means everybody's.
    """

    principals: tuple[str, ...] = ()
    states: tuple[TaskState, ...] = ()
    capability: str = ""
    context_id: str = ""
    created_since: int = 0
    created_until: int = 0
    state_since: int = 0
    order: TaskOrder = TaskOrder.CREATE_TIME
    ascending: bool = False
    limit: int = 50
    skip: int = 0
    after: tuple[int, str] | None = None
    count: bool = False


@dataclass(frozen=True, slots=True)
class TaskPage:
    """`total` is 0 unless it was asked for; `more` tells whether another page follows."""

    tasks: tuple[Task, ...]
    total: int
    more: bool


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """An artifact and the task that owns it."""

    task_id: str
    artifact: Artifact


class Store(Protocol):
    """Where tasks live. Reads see every commit that was answered before they began."""

    async def commit(self, writes: Sequence[Write]) -> None:
        """All or nothing; returns once durable. CommitConflict, StoreFull or CommitUnknown."""
        ...

    async def task(self, task_id: str) -> Task | None:
        """A task by id."""
        ...

    async def tasks(self, query: TaskQuery) -> TaskPage:
        """A page of tasks."""
        ...

    async def events(self, task_id: str, after: int, limit: int) -> Sequence[Event]:
        """Events numbered above `after` in order, at most `limit`."""
        ...

    async def history(self, task_id: str) -> Sequence[StateChange]:
        """Every state change in order."""
        ...

    async def artifacts(self, task_id: str) -> Sequence[Artifact]:
        """Artifacts of a task in order of creation."""
        ...

    async def find_artifact(
        self, artifact_id: str, principals: Sequence[str], task_id: str
    ) -> ArtifactRecord | None:
        """The newest artifact of that id among these owners' tasks (empty: anybody's)."""
        ...

    async def chunks(
        self, task_id: str, artifact_id: str, position: int, limit: int
    ) -> Sequence[StoredChunk]:
        """Chunks of the current version from `position` on, in order."""
        ...

    async def messages(self, task_id: str, skip: int, limit: int) -> Sequence[Message]:
        """Message envelopes in order of their first insertion."""
        ...


class Queue(Protocol):
    """What the scheduler, the timers and recovery ask of the store."""

    async def queued(self, capability_id: str, limit: int) -> Sequence[Task]:
        """SUBMITTED tasks of a capability, the next one to start first."""
        ...

    async def open_tasks(self) -> Sequence[Task]:
        """Every task that is neither terminal nor SUBMITTED; they are few."""
        ...

    async def due(self, until: int, limit: int) -> Sequence[tuple[int, str]]:
        """(due_time, task id) of open tasks due by `until`, soonest first."""
        ...

    async def count(self, state: TaskState) -> int:
        """How many tasks are in a state."""
        ...

    async def expired(self, ended_before: int, limit: int) -> Sequence[str]:
        """Terminal tasks that ended before a time, oldest first (task_retention_hours)."""
        ...

    async def forget(self, task_ids: Sequence[str], keys_before: int) -> None:
        """Delete terminal tasks with all they own, and idempotency keys older than a time."""
        ...


class Registry(Protocol):
    """Small records beside the tasks."""

    async def capabilities(self) -> Sequence[Capability]:
        """All that were ever offered, by id."""
        ...

    async def idempotency_key(self, principal: str, method: str, key: str) -> IdempotencyKey | None:
        """What a key stands for."""
        ...

    async def subscription(self, subscription_id: str) -> Subscription | None:
        """A subscription by id."""
        ...

    async def client_session(self, session_id: str) -> ClientSession | None:
        """A client session by id, expired ones included."""
        ...


@dataclass(frozen=True, slots=True)
class OperationQuery:
    """Filters joined by AND; empty means no filter. `before` is the last id of the page before."""

    principal: str = ""
    instance_id: str = ""
    active: bool = False
    before: str = ""
    limit: int = 50


class Runtimes(Protocol):
    """Instances, and the operations that act on them. Ids of operations sort by creation."""

    async def operation(self, operation_id: str) -> Operation | None:
        """An operation by id."""
        ...

    async def operations(self, query: OperationQuery) -> Sequence[Operation]:
        """A page of operations, newest first."""
        ...

    async def active_operations(self) -> Sequence[Operation]:
        """Every operation that is not terminal, oldest first; they are few."""
        ...

    async def operation_events(
        self, operation_id: str, after: int, limit: int
    ) -> Sequence[OperationEvent]:
        """Events numbered above `after` in order, at most `limit`."""
        ...

    async def instances(self) -> Sequence[Instance]:
        """Every instance that ever attached, by id."""
        ...

    async def forget_operations(self, ended_before: int, limit: int) -> int:
        """Delete the oldest terminal operations that ended before a time; returns how many."""
        ...
