"""What callers do with runtime operations and instances: each method is one use case."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from aiosd.application import json_text
from aiosd.application.errors import (
    MethodNotSupported,
    OperationCursorAhead,
    OperationNotFound,
    QueueFull,
    RequestIdConflict,
    ShuttingDown,
)
from aiosd.application.operation_ledger import RuntimeStore
from aiosd.application.ports import CommitConflict, OperationQuery, Queue, Registry
from aiosd.application.writes import IdempotencyKey
from aiosd.domain import operation_lifecycle as life
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.operation import OperationRequest, OperationStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from aiosd.application.access import Caller
    from aiosd.application.instances import Instances
    from aiosd.application.limits import Limits
    from aiosd.application.operating import Operating
    from aiosd.application.operation_ledger import OperationLedger
    from aiosd.application.ports import Clock, Ids
    from aiosd.application.wakeups import Wakeups
    from aiosd.domain.instance import Instance
    from aiosd.domain.operation import Operation, OperationEvent
    from aiosd.domain.operation_lifecycle import OperationDraft

METHOD = "CreateOperation"
SCOPES = ("instance", "agent", "conversation")
MAX_PARAMS = 1_048_576
MAX_REASON = 1024
PAGE = 200
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class NewOperation:
    """What a caller asks for; `deadline_ms` counts from creation, 0 means none."""

    scope: str
    target_id: str
    method: str
    params: str = "{}"
    deadline_ms: int = 0
    request_id: str = ""
    trace_parent: str = ""

    def fingerprint(self) -> str:
        """Hash of what was asked for, the key and the trace left out."""
        asked = asdict(self)
        del asked["request_id"], asked["trace_parent"]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


class OperationStore(RuntimeStore, Registry, Queue, Protocol):
    """One adapter behind all of these ports."""


class Operations:
    """Operations of others look like operations that are not there (R019)."""

    def __init__(
        self,
        store: OperationStore,
        ledger: OperationLedger,
        instances: Instances,
        operating: Operating,
        wakeups: Wakeups,
        ids: Ids,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._instances = instances
        self._operating = operating
        self._wakeups = wakeups
        self._ids = ids
        self._clock = clock
        self._limits = limits
        self._reserved = 0
        self._stopping = False

    def stop(self) -> None:
        """Refuse new operations and end streams with ShuttingDown."""
        self._stopping = True
        self._wakeups.notify_all()

    async def create(self, caller: Caller, new: NewOperation) -> tuple[Operation, bool]:
        """The operation, and whether this call made it; durable when this returns.

        Raises ArgumentInvalid, InstanceNotFound, MethodNotSupported, QueueFull,
        RequestIdConflict, OutcomeUnknown.
        """
        caller.require("task:create")
        if self._stopping:
            raise ShuttingDown
        check(new)
        fingerprint = new.fingerprint() if new.request_id else ""
        for _ in range(3):
            if new.request_id:
                known = await self._known(caller, new, fingerprint)
                if known is not None:
                    return known, False
            draft = self._draft(caller, new)
            key = IdempotencyKey(
                caller.principal,
                METHOD,
                new.request_id,
                fingerprint,
                draft.operation.id,
                draft.now,
            )
            self._reserved += 1
            try:
                made = await self._ledger.insert(draft, [key] if new.request_id else [])
            except CommitConflict:
                continue  # the same key was committed a moment ago
            finally:
                self._reserved -= 1
            return made, True
        raise RequestIdConflict("request_id: is in use", {"field": "request_id"})

    async def get(self, caller: Caller, operation_id: str) -> Operation:
        """An operation of the caller; raises OperationNotFound."""
        caller.require("task:read")
        found = await self._ledger.load(operation_id)
        if found is None or not caller.principal or found.request.principal != caller.principal:
            raise OperationNotFound
        return found

    async def list(self, caller: Caller, query: OperationQuery) -> Sequence[Operation]:
        """A page of the caller's operations, newest first."""
        caller.require("task:read")
        return await self._store.operations(
            OperationQuery(
                caller.principal, query.instance_id, query.active, query.before, query.limit
            )
        )

    async def cancel(self, caller: Caller, operation_id: str, reason: str) -> Operation:
        """Ask for it to stop; raises OperationNotCancellable once its effect is committed."""
        caller.require("task:control")
        if len(reason) > MAX_REASON:
            raise ArgumentInvalid("reason", f"must not exceed {MAX_REASON} characters")
        json_text.check_text(reason, "reason")
        await self.get(caller, operation_id)
        operation, _ = await self._ledger.change(
            operation_id, lambda draft: life.cancel(draft, caller.principal, reason)
        )
        self._operating.tell_of_cancel(operation)
        return operation

    async def close(self, caller: Caller, operation_id: str) -> Operation:
        """Give a blocked projection up for good; raises OperationNotBlocked."""
        caller.require("task:control")
        await self.get(caller, operation_id)
        operation, _ = await self._ledger.change(operation_id, life.close)
        return operation

    async def follow(
        self, caller: Caller, operation_id: str, after: int
    ) -> AsyncIterator[Sequence[OperationEvent]]:
        """Events after a cursor, replayed, then live, until the last of a terminal operation.

        Raises OperationNotFound, OperationCursorAhead, ShuttingDown.
        """
        operation = await self.get(caller, operation_id)
        if after < 0 or after > operation.sequence:
            raise OperationCursorAhead(
                f"event {after} is ahead of the log",
                {
                    "operation_id": operation_id,
                    "cursor": str(after),
                    "last_sequence": str(operation.sequence),
                },
            )
        cursor = after
        with self._wakeups.listen(operation_id) as signal:
            while True:
                signal.clear()
                if self._stopping:
                    raise ShuttingDown
                operation = await self.get(caller, operation_id)
                while cursor < operation.sequence:
                    events = await self._store.operation_events(operation_id, cursor, PAGE)
                    cursor = events[-1].sequence if events else operation.sequence
                    if events:
                        yield events
                if operation.terminal:
                    return
                await signal.wait()

    def instances(self, caller: Caller) -> Sequence[Instance]:
        """Every instance, by id."""
        caller.require("task:read")
        return self._instances.all()

    def instance(self, caller: Caller, instance_id: str) -> Instance:
        """An instance; raises InstanceNotFound."""
        caller.require("task:read")
        return self._instances.get(instance_id)

    def attached(self, instance_id: str) -> bool:
        """Whether a provider is this instance now."""
        return self._instances.session(instance_id) is not None

    # --- inside -----------------------------------------------------------------------------------

    async def _known(self, caller: Caller, new: NewOperation, fingerprint: str) -> Operation | None:
        key = await self._store.idempotency_key(caller.principal, METHOD, new.request_id)
        if key is None:
            return None
        kept_since = self._clock.now() - self._limits.idempotency_retention_hours * HOUR_MS
        if key.create_time < kept_since:
            await self._store.forget((), kept_since)  # the sweep has not come by yet
            return None
        if key.fingerprint != fingerprint:
            raise RequestIdConflict(
                "request_id: was used for another request", {"field": "request_id"}
            )
        return await self._ledger.load(key.target)

    def _draft(self, caller: Caller, new: NewOperation) -> OperationDraft:
        instance = self._instances.of_target(new.scope, new.target_id)
        if new.method not in instance.methods:
            raise MethodNotSupported(
                f"method: the instance {instance.id} does not accept {new.method}",
                {
                    "field": "method",
                    "problem": f"is none of {', '.join(instance.methods)}",
                    "instance_id": instance.id,
                },
            )
        waiting = sum(
            one.request.instance_id == instance.id and one.status is OperationStatus.QUEUED
            for one in self._ledger.active()
        )
        limit = self._limits.max_queue_size
        if waiting + self._reserved >= limit:
            raise QueueFull("the operation queue of the instance is full", {"limit": str(limit)})
        now = self._clock.now()
        request = OperationRequest(
            instance_id=instance.id,
            scope=new.scope,
            target_id=new.target_id,
            method=new.method,
            params=new.params,
            principal=caller.principal,
            create_time=now,
            expire_time=now + new.deadline_ms if new.deadline_ms else 0,
            trace_parent=new.trace_parent,
        )
        return life.submit(uuid_of(self._ids.new("op")), request)


def check(new: NewOperation) -> None:
    """Shapes and sizes; raises ArgumentInvalid naming the field."""
    if new.scope not in SCOPES:
        raise ArgumentInvalid("target.scope", f"must be one of {', '.join(SCOPES)}")
    for name, text, least, most in (
        ("target.id", new.target_id, 1, 256),
        ("method", new.method, 1, 128),
        ("request_id", new.request_id, 0, 128),
    ):
        json_text.check_text(text, name)
        if not least <= len(text) <= most:
            raise ArgumentInvalid(name, f"must have {least}..{most} characters")
    if len(new.params.encode()) > MAX_PARAMS:
        raise ArgumentInvalid("params", f"must not exceed {MAX_PARAMS} bytes")
    json_text.parse_object(new.params, "params")


def uuid_of(made: str) -> str:
    """The UUID in an id such as `op-<32 hex digits>`, in its usual writing."""
    digits = made.rpartition("-")[2]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
