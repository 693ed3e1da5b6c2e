"""What a commit may contain. A store takes a tuple of these and does all of it or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiosd.application.access_writes import AccessWrite
from aiosd.application.trust_writes import TrustWrite
from aiosd.domain.artifact import Artifact, StoredChunk
from aiosd.domain.capability import Capability
from aiosd.domain.content import Message
from aiosd.domain.event import Event, EventFamily
from aiosd.domain.instance import Instance
from aiosd.domain.operation import Operation, OperationEvent
from aiosd.domain.task import StateChange, Task


@dataclass(frozen=True, slots=True)
class PutTask:
    """Insert (expected_revision 0) or replace a task; refused if its revision is another."""

    task: Task
    expected_revision: int


@dataclass(frozen=True, slots=True)
class AppendEvents:
    """Events of a task, numbered by the domain; dense by the revision check beside it."""

    task_id: str
    events: tuple[Event, ...]
    history: tuple[StateChange, ...] = ()


@dataclass(frozen=True, slots=True)
class CutEvents:
    """Forget events numbered below `floor` (event_retention)."""

    task_id: str
    floor: int


@dataclass(frozen=True, slots=True)
class PutArtifact:
    """Insert or replace what is known of an artifact."""

    task_id: str
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class PutChunk:
    """Content of one chunk; chunks of older versions of the artifact are dropped."""

    task_id: str
    chunk: StoredChunk


@dataclass(frozen=True, slots=True)
class PutMessage:
    """Insert or replace a message envelope; order is that of the first insertion."""

    task_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Remembers what a key of a caller stands for; refused if the key is taken (I03, I04).

    `method` names the kind of thing made, `target` is its id, `fingerprint` the hash of the
    request. A key older than `idempotency_retention_hours` may be replaced.
    """

    principal: str
    method: str
    key: str
    fingerprint: str
    target: str
    create_time: int


@dataclass(frozen=True, slots=True)
class PutCapability:
    """Insert or replace a capability."""

    capability: Capability


@dataclass(frozen=True, slots=True)
class Subscription:
    """A remembered wish to follow one task."""

    id: str
    task_id: str
    principal: str
    families: tuple[EventFamily, ...]
    after: int
    create_time: int


@dataclass(frozen=True, slots=True)
class PutSubscription:
    """Insert a subscription."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class DropSubscription:
    """Delete a subscription; harmless when it is gone."""

    subscription_id: str


@dataclass(frozen=True, slots=True)
class PutOperation:
    """Insert (expected_revision 0) or replace an operation; refused if its revision is another."""

    operation: Operation
    expected_revision: int


@dataclass(frozen=True, slots=True)
class AppendOperationEvents:
    """Events of an operation, numbered by the domain."""

    operation_id: str
    events: tuple[OperationEvent, ...]


@dataclass(frozen=True, slots=True)
class PutInstance:
    """Insert (expected_revision 0) or replace an instance; refused if its revision is another."""

    instance: Instance
    expected_revision: int


@dataclass(frozen=True, slots=True)
class ClientSession:
    """An AIOS session of a client program (wire.md 1.2); not a provider's session.

    `attributes` is JSON object text: what was negotiated. It ends at `expire_time` unless used.
    """

    id: str
    principal: str
    attributes: str
    create_time: int
    expire_time: int
    lifetime_ms: int


@dataclass(frozen=True, slots=True)
class PutClientSession:
    """Insert or replace a client session."""

    session: ClientSession


@dataclass(frozen=True, slots=True)
class DropClientSession:
    """Delete a client session; harmless when it is gone."""

    session_id: str


Write: TypeAlias = (
    PutTask
    | AppendEvents
    | CutEvents
    | PutArtifact
    | PutChunk
    | PutMessage
    | IdempotencyKey
    | PutCapability
    | PutSubscription
    | DropSubscription
    | PutClientSession
    | DropClientSession
    | PutOperation
    | AppendOperationEvents
    | PutInstance
    | TrustWrite
    | AccessWrite
)
