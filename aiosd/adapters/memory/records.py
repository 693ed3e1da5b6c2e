"""What the store in memory keeps, and how a change of it is undone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from aiosd.application.ports import CommitConflict
from aiosd.application.writes import (
    AppendEvents,
    AppendOperationEvents,
    ClientSession,
    CutEvents,
    DropClientSession,
    DropSubscription,
    IdempotencyKey,
    PutArtifact,
    PutCapability,
    PutChunk,
    PutClientSession,
    PutInstance,
    PutMessage,
    PutOperation,
    PutSubscription,
    PutTask,
    Subscription,
    Write,
)
from aiosd.domain.artifact import Artifact, StoredChunk
from aiosd.domain.content import Message
from aiosd.domain.event import Event
from aiosd.domain.task import StateChange, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.domain.capability import Capability
    from aiosd.domain.instance import Instance
    from aiosd.domain.operation import Operation, OperationEvent
    from aiosd.domain.state import TaskState

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class Record:
    """A task and what it owns. Dictionaries keep the order of the first insertion."""

    task: Task
    events: dict[int, Event] = field(default_factory=dict)
    history: dict[int, StateChange] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    chunks: dict[tuple[str, int, int], StoredChunk] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)


class Records:
    """Tasks, operations and what belongs to them, changed by `apply` and set back by `undo`.

    What is kept beside them changes through `put` and `delete`, and is set back together.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, Record] = {}
        self.by_state: defaultdict[TaskState, dict[str, Record]] = defaultdict(dict)
        self.keys: dict[tuple[str, str, str], IdempotencyKey] = {}
        self.capabilities: dict[str, Capability] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.client_sessions: dict[str, ClientSession] = {}
        self.operations: dict[str, Operation] = {}
        self.operation_events: dict[tuple[str, int], OperationEvent] = {}
        self.instances: dict[str, Instance] = {}
        self._undo: list[Callable[[], object]] = []

    def begin(self) -> None:
        """Whatever is applied from here on can be undone."""
        self._undo.clear()

    def undo(self) -> None:
        """Set everything back to what it was at `begin`."""
        while self._undo:
            self._undo.pop()()

    def apply(self, write: Write) -> None:
        """Do one write; raises CommitConflict, after which the caller must `undo`."""
        match write:
            case PutTask():
                self._put_task(write)
            case AppendEvents():
                record = self._record(write.task_id)
                for event in write.events:
                    self._insert(record.events, event.sequence, event, "event")
                for change in write.history:
                    self._insert(record.history, change.sequence, change, "state change")
            case CutEvents():
                events = self._record(write.task_id).events
                for sequence in [one for one in events if one < write.floor]:
                    self._delete(events, sequence)
            case PutArtifact():
                artifacts = self._record(write.task_id).artifacts
                self._put(artifacts, write.artifact.artifact_id, write.artifact)
            case PutChunk():
                self._put_chunk(write)
            case PutMessage():
                messages = self._record(write.task_id).messages
                self._put(messages, write.message.message_id, write.message)
            case IdempotencyKey():
                self._insert(self.keys, (write.principal, write.method, write.key), write, "key")
            case PutCapability():
                self._put(self.capabilities, write.capability.id, write.capability)
            case PutSubscription():
                subscription = write.subscription
                self._record(subscription.task_id)
                self._insert(self.subscriptions, subscription.id, subscription, "subscription")
            case DropSubscription():
                if write.subscription_id in self.subscriptions:
                    self._delete(self.subscriptions, write.subscription_id)
            case PutClientSession():
                self._put(self.client_sessions, write.session.id, write.session)
            case DropClientSession():
                if write.session_id in self.client_sessions:
                    self._delete(self.client_sessions, write.session_id)
            case PutOperation():
                operation = write.operation
                self._check(self.operations.get(operation.id), write.expected_revision)
                self._put(self.operations, operation.id, operation)
            case AppendOperationEvents():
                if write.operation_id not in self.operations:
                    raise CommitConflict(f"there is no operation {write.operation_id}")
                for fact in write.events:
                    key = (write.operation_id, fact.sequence)
                    self._insert(self.operation_events, key, fact, "event")
            case PutInstance():
                instance = write.instance
                self._check(self.instances.get(instance.id), write.expected_revision)
                self._put(self.instances, instance.id, instance)
            case _:
                raise TypeError(f"{type(write).__name__} is kept elsewhere")

    def forget(self, task_id: str) -> bool:
        """Delete a terminal task with all it owns; False, and nothing, for any other id."""
        record = self.tasks.get(task_id)
        if record is None or not record.task.terminal:
            return False
        del self.tasks[task_id], self.by_state[record.task.state][task_id]
        for one in [one for one in self.subscriptions.values() if one.task_id == task_id]:
            del self.subscriptions[one.id]
        return True

    def require(self, task_id: str) -> None:
        """Raise CommitConflict unless there is such a task."""
        self._record(task_id)

    def put(self, into: dict[K, V], key: K, value: V) -> None:
        """Insert or replace, so that it can be undone."""
        self._put(into, key, value)

    def delete(self, out_of: dict[K, V], key: K) -> None:
        """Delete, so that it can be undone."""
        self._delete(out_of, key)

    def _check(self, found: Operation | Instance | None, expected: int) -> None:
        if (found.revision if found is not None else 0) != expected:
            raise CommitConflict(f"it is no longer at revision {expected}")

    def _record(self, task_id: str) -> Record:
        if task_id not in self.tasks:
            raise CommitConflict(f"there is no task {task_id}")
        return self.tasks[task_id]

    def _put_task(self, write: PutTask) -> None:
        task, expected = write.task, write.expected_revision
        if expected == 0:
            record = Record(task)
            self._insert(self.tasks, task.id, record, "task")
        else:
            found = self.tasks.get(task.id)
            if found is None or found.task.revision != expected:
                raise CommitConflict(f"task {task.id} is no longer at revision {expected}")
            record = found
            before = record.task
            self._delete(self.by_state[before.state], task.id)
            record.task = task
            self._undo.append(lambda: setattr(record, "task", before))
        self._put(self.by_state[task.state], task.id, record)

    def _put_chunk(self, write: PutChunk) -> None:
        chunk = write.chunk
        chunks = self._record(write.task_id).chunks
        for key in [
            key for key in chunks if key[0] == chunk.artifact_id and key[1] < chunk.version
        ]:
            self._delete(chunks, key)
        key = (chunk.artifact_id, chunk.version, chunk.position)
        self._insert(chunks, key, chunk, "chunk")

    def _insert(self, into: dict[K, V], key: K, value: V, what: str) -> None:
        if key in into:
            raise CommitConflict(f"the {what} {key} is there already")
        into[key] = value
        self._undo.append(lambda: into.pop(key))

    def _put(self, into: dict[K, V], key: K, value: V) -> None:
        if key in into:
            before = into[key]
            self._undo.append(lambda: into.__setitem__(key, before))
        else:
            self._undo.append(lambda: into.pop(key))
        into[key] = value

    def _delete(self, out_of: dict[K, V], key: K) -> None:
        # Undone, it comes last: only where order does not matter or everything is deleted.
        value = out_of.pop(key)
        self._undo.append(lambda: out_of.__setitem__(key, value))
