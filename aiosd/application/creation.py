"""Making tasks: checked at the door, idempotent by key, durable before the answer."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from aiosd.application import json_text
from aiosd.application.errors import QueueFull, RequestIdConflict, ShuttingDown
from aiosd.application.ports import CommitConflict
from aiosd.application.webhook_request import SECRET_MEMBERS, NewWebhook
from aiosd.application.writes import IdempotencyKey, Write
from aiosd.domain import lifecycle
from aiosd.domain.capability import fill_options
from aiosd.domain.content import Message
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.interruption import hide_credentials, refuse_message_credentials
from aiosd.domain.state import TaskState
from aiosd.domain.task import Options, Task, TaskRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aiosd.application.access import Caller
    from aiosd.application.capabilities import Capabilities
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.ports import Clock, Ids, Queue, Registry
    from aiosd.application.quotas import Quotas
    from aiosd.domain.capability import Capability
    from aiosd.domain.draft import Draft

METHOD = "CreateTask"
MAX_ARGUMENTS = 1_048_576
MAX_METADATA = 65_536
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class NewTask:
    """What a caller asks for; `retry_named` tells whether a retry policy was given at all."""

    capability_id: str
    arguments: str = "{}"
    message: Message | None = None
    context_id: str = ""
    options: Options = field(default_factory=Options)
    retry_named: bool = False
    metadata: str = "{}"
    request_id: str = ""
    reference_task_ids: tuple[str, ...] = ()
    session_id: str = ""
    trace_parent: str = ""
    retried_from: str = ""
    webhooks: tuple[NewWebhook, ...] = ()

    def fingerprint(self) -> str:
        """Hash of what was asked for; the key, the trace and the moment are left out."""
        asked = asdict(self)
        if self.message is not None:
            for name in ("create_time", "update_time"):
                del asked["message"][name]
        for name in ("request_id", "trace_parent", "session_id"):
            del asked[name]
        for webhook in asked["webhooks"]:
            for name in SECRET_MEMBERS:
                del webhook[name]
        text = json.dumps(asked, sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()


class Creation:
    """The use case CreateTask. The depth of the queue is counted here."""

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        queue: Queue,
        capabilities: Capabilities,
        ids: Ids,
        clock: Clock,
        limits: Limits,
        quotas: Quotas,
    ) -> None:
        self._ledger = ledger
        self._registry = registry
        self._queue = queue
        self._capabilities = capabilities
        self._ids = ids
        self._clock = clock
        self._limits = limits
        self._quotas = quotas
        #: Makes the webhooks of a new task part of its first commit.
        self.attach: Callable[[Draft, Sequence[NewWebhook]], Sequence[Write]] | None = None
        self._queued = 0
        self._reserved: set[str] = set()
        self._stopping = False

    @property
    def queued(self) -> int:
        """Tasks in SUBMITTED, those being committed included."""
        return self._queued + len(self._reserved)

    def begin(self, queued: int) -> None:
        """Start from what the store counted."""
        self._queued = queued

    def stop(self) -> None:
        """Refuse new tasks with ShuttingDown."""
        self._stopping = True

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Follow the queue (Ledger observer)."""
        was = before is not None and before.state is TaskState.SUBMITTED
        self._release(draft.task)
        self._queued += int(draft.task.state is TaskState.SUBMITTED) - int(was)

    async def create(
        self, caller: Caller, new: NewTask, extra: Sequence[Write] = ()
    ) -> tuple[Task, bool]:
        """The task, and whether this call made it.

        Raises CapabilityNotFound, ArgumentInvalid, ArgumentsRejected, QueueFull,
        RequestIdConflict, CredentialRefused, OutcomeUnknown.
        """
        caller.require("task:create")
        if new.webhooks:
            caller.require("webhook:manage")
        if self._stopping:
            raise ShuttingDown
        fingerprint = new.fingerprint() if new.request_id else ""
        for _ in range(3):
            if new.request_id:
                known = await self._known(caller, new, fingerprint)
                if known is not None:
                    return known, False
            draft = self._draft(caller, new)
            webhooks = self.attach(draft, new.webhooks) if self.attach and new.webhooks else ()
            self._reserve(draft.task)
            try:
                task = await self._ledger.insert(
                    draft, [*self._key(caller, new, fingerprint, draft.task.id), *webhooks, *extra]
                )
            except CommitConflict:
                continue  # the same key was committed a moment ago
            finally:
                self._release(draft.task)
            return task, True
        raise RequestIdConflict("request_id: is in use", {"field": "request_id"})

    @contextmanager
    def prepared(self, caller: Caller, new: NewTask) -> Iterator[Draft]:
        """A new task that is committed together with another change, inside the `with`."""
        caller.require("task:create")
        if self._stopping:
            raise ShuttingDown
        draft = self._draft(caller, new)
        self._reserve(draft.task)
        try:
            yield draft
        finally:
            self._release(draft.task)

    async def _known(self, caller: Caller, new: NewTask, fingerprint: str) -> Task | None:
        key = await self._registry.idempotency_key(caller.principal, METHOD, new.request_id)
        if key is None:
            return None
        kept_since = self._clock.now() - self._limits.idempotency_retention_hours * HOUR_MS
        if key.create_time < kept_since:
            # Its time is over, and the sweep has not come by yet: free it for this request.
            await self._queue.forget((), kept_since)
            return None
        if key.fingerprint != fingerprint:
            raise RequestIdConflict(
                "request_id: was used for another request", {"field": "request_id"}
            )
        return await self._ledger.load(key.target)

    def _key(
        self, caller: Caller, new: NewTask, fingerprint: str, task_id: str
    ) -> list[IdempotencyKey]:
        if not new.request_id:
            return []
        now = self._clock.now()
        return [IdempotencyKey(caller.principal, METHOD, new.request_id, fingerprint, task_id, now)]

    def _reserve(self, task: Task) -> None:
        limit = self._limits.max_queue_size
        if self.queued >= limit:
            raise QueueFull("the task queue is full", {"limit": str(limit)})
        self._quotas.reserve(task.principal, task.id)
        self._reserved.add(task.id)

    def _release(self, task: Task) -> None:
        self._reserved.discard(task.id)
        self._quotas.release(task.principal, task.id)

    def _draft(self, caller: Caller, new: NewTask) -> Draft:
        capability = self._capabilities.get(new.capability_id)
        self._capabilities.check_arguments(capability, check(new))
        request = TaskRequest(
            capability_id=capability.id,
            tool_id=capability.tool,
            arguments=new.arguments,
            message=new.message,
            metadata=hide_credentials(new.metadata),
            options=self._options(new, capability),
            pausable=capability.pausable,
            estimated_duration_ms=capability.estimated_duration_ms,
            reference_task_ids=new.reference_task_ids,
            retried_from=new.retried_from,
            trace_parent=new.trace_parent,
            session_id=new.session_id,
            credential_id=caller.credential_id,
        )
        return lifecycle.submit(
            task_id=self._ids.new("task"),
            context_id=new.context_id or self._ids.new("ctx"),
            principal=caller.principal,
            request=request,
            now=self._clock.now(),
        )

    def _options(self, new: NewTask, capability: Capability) -> Options:
        return fill_options(
            new.options,
            capability,
            retry_named=new.retry_named,
            default_timeout_ms=self._limits.default_timeout_ms,
            retry_safe_attempts=self._limits.retry_safe_attempts,
        )


def check(new: NewTask) -> dict[str, Any]:
    """The parsed arguments, after shapes and sizes were checked.

    Raises ArgumentInvalid naming the field, or CredentialRefused.
    """
    if len(new.arguments.encode()) > MAX_ARGUMENTS:
        raise ArgumentInvalid("arguments", f"must not exceed {MAX_ARGUMENTS} bytes")
    if len(new.metadata.encode()) > MAX_METADATA:
        raise ArgumentInvalid("metadata", f"must not exceed {MAX_METADATA} bytes")
    arguments = json_text.parse_object(new.arguments, "arguments")
    json_text.parse_object(new.metadata, "metadata")
    for name, text, longest in (
        ("context_id", new.context_id, 128),
        ("request_id", new.request_id, 128),
    ):
        json_text.check_text(text, name)
        if len(text) > longest:
            raise ArgumentInvalid(name, f"must not exceed {longest} characters")
    if new.message is not None:
        for part in new.message.parts:
            json_text.check_text(part.content, "message.parts")
        refuse_message_credentials(new.message)
    return arguments
