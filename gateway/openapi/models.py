"""What requests may hold and what answers look like: the models that validate and describe.

Requests are read strictly: no number from a string, no fraction for an integer, null is no value.
Members that nobody declared are ignored. Answer models describe; `docs/openapi-wire.md` explains.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.aios.params import Id, JsonObject, Params

DeadlineMs = Annotated[int, Field(ge=0, le=604_800_000)]
"""Milliseconds of wall-clock time from creation; 0: none."""
Key = Annotated[str, Field(min_length=1, max_length=128)]
Reason = Annotated[str, Field(max_length=1024)]
Secret = Annotated[str, Field(min_length=1, max_length=65_536)]
OpenApiStatus = Literal[
    "queued",
    "running",
    "input_required",
    "auth_required",
    "completed",
    "failed",
    "canceled",
    "timeout",
    "rejected",
]
ProductStatus = Literal["queued", "processing", "completed", "failed", "cancelled"]
MessageStatus = Literal["streaming", "completed", "failed", "refused", "cancelled"]
OperationStatus = Literal[
    "queued",
    "running",
    "runtime_committed",
    "projection_pending",
    "projection_blocked",
    "succeeded",
    "failed",
    "cancelled",
    "expired",
    "outcome_unknown",
]
EffectState = Literal[
    "queued", "running", "committed", "failed", "cancelled", "expired", "outcome_unknown"
]


class MessageBody(Params):
    """A message of parts, each as on the AIOS wire: `type` and a member of that name."""

    parts: Annotated[list[JsonObject], Field(min_length=1, max_length=100)]


MessageText = Annotated[str, Field(min_length=1, max_length=262_144)]


class CreateTask(Params):
    """A task to make. Without arguments, an empty object."""

    capability_id: Id
    arguments: JsonObject = Field(default_factory=dict)
    message: MessageText | MessageBody | None = None
    context_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    deadline_ms: DeadlineMs = 0
    idempotency_key: Key | None = None
    metadata: JsonObject = Field(default_factory=dict)


class Invoke(CreateTask):
    """A task to make and to wait for. `timeout_ms` bounds the wait, not the task."""

    timeout_ms: Annotated[int, Field(ge=1, le=115_000)] | None = None


class Cancel(Params):
    """Why; nobody need say."""

    reason: Reason = ""


class AuthGrant(Params):
    """A credential or a decision; which members are needed depends on the type."""

    type: Literal["oauth2", "api_key", "password", "certificate", "approval"]
    authorization_code: Secret | None = None
    state: Secret | None = None
    api_key: Secret | None = None
    username: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    password: Secret | None = None
    certificate: Secret | None = None
    decision: Literal["approve", "deny"] | None = None
    confirmation_id: Id | None = None


class Continue(Params):
    """Exactly one of the two: what an input_required or an auth_required task waits for.

    An input that is a text stands for `{"text": input}`.
    """

    input: JsonObject | MessageText | None = None
    auth_grant: AuthGrant | None = None


class Resolve(Params):
    """How an uncertain failure is closed, and what was seen."""

    outcome: Literal["completed", "failed", "retry"]
    evidence: Annotated[str, Field(min_length=1, max_length=4096)]


class Target(Params):
    """What an operation acts on; `id` of an agent or conversation is INSTANCE:NAME."""

    scope: Literal["instance", "agent", "conversation"]
    id: Annotated[str, Field(min_length=1, max_length=256)]


class CreateOperation(Params):
    """A control command. `deadline_ms` bounds its execution; 0: no bound."""

    target: Target
    method: Annotated[str, Field(min_length=1, max_length=128)]
    params: JsonObject = Field(default_factory=dict)
    deadline_ms: DeadlineMs = 0
    idempotency_key: Key | None = None


class Answer(BaseModel):
    """A member that can be missing is never null."""

    model_config = ConfigDict(extra="allow")


class ErrorBody(Answer):
    """What went wrong; `code` is the stable word, `param` names the field."""

    type: str
    code: str
    message: str
    request_id: str
    param: str | None = None
    metadata: dict[str, Any] | None = None


class Failure(Answer):
    """The envelope of every answer that is not a success."""

    success: Literal[False]
    error: ErrorBody


class ProductView(Answer):
    """The product's view. A failure has all of reason, outcome_certainty and retry_policy."""

    status: ProductStatus
    reason: str | None = None
    outcome_certainty: Literal["certain", "uncertain"] | None = None
    retry_policy: Literal["none", "resubmit", "resume", "manual_review"] | None = None


class TaskAccepted(Answer):
    """A task was made, or found by its idempotency key."""

    task_id: str
    status: Literal["queued"]
    created_at: str


class TaskError(Answer):
    """Why a task failed."""

    code: int
    message: str
    data: dict[str, Any]


class Progress(Answer):
    """How far a task has come."""

    percent: float
    message: str | None = None
    current_step: int | None = None
    total_steps: int | None = None


class Resolution(Answer):
    """How a person closed an uncertain failure."""

    outcome: Literal["completed", "failed", "retry"]
    evidence: str
    by: str
    at: str
    retried_as: str | None = None


class Task(Answer):
    """A task. `result` is there once it completed, `error` once it failed."""

    task_id: str
    capability_id: str
    context_id: str
    status: OpenApiStatus
    product: ProductView
    progress: Progress | None = None
    result: Any = None
    error: TaskError | None = None
    artifacts: list[dict[str, Any]]
    input_request: dict[str, Any] | None = None
    auth_request: dict[str, Any] | None = None
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    started_at: str | None = None
    completed_at: str | None = None
    deadline_at: str | None = None
    retried_from: str | None = None
    resolution: Resolution | None = None


class Tasks(Answer):
    """One page of tasks, newest first; `next_cursor` is null at the end."""

    tasks: list[Task]
    next_cursor: str | None = Field(json_schema_extra={"type": ["string", "null"]})


class ProductTask(ProductView):
    """The product projection alone."""

    task_id: str
    capability_id: str
    context_id: str
    created_at: str
    updated_at: str
    completed_at: str | None = None


class ProductTasks(Answer):
    """One page, newest first."""

    tasks: list[ProductTask]
    next_cursor: str | None = Field(json_schema_extra={"type": ["string", "null"]})


class Message(Answer):
    """One message envelope; its status says nothing about the task's (R160)."""

    message_id: str
    role: Literal["user", "agent"]
    status: MessageStatus
    stop_reason: str | None = None
    parts: list[dict[str, Any]]
    in_reply_to: str | None = None
    created_at: str
    updated_at: str


class Messages(Answer):
    """All messages of a task in order."""

    messages: list[Message]


class Projection(Answer):
    """Whether the effect shows in the registry; the instance's revision after it, 0 before."""

    revision: int
    state: Literal["not_applicable", "pending", "synced", "blocked"]


class OperationError(Answer):
    """Why an operation did not succeed, and what a caller may do."""

    code: str
    message: str
    operationId: str
    effectState: EffectState
    retryMode: Literal["none", "resume", "resubmit"]
    context: dict[str, Any] | None = None


class Operation(Answer):
    """A runtime operation with all of its details (R168)."""

    id: str
    instanceId: str
    target: dict[str, str]
    method: str
    transport: Literal["service"]
    status: OperationStatus
    effectState: EffectState
    terminal: bool
    projection: Projection
    product: ProductView
    progress: dict[str, Any] | None = None
    cancelRequest: dict[str, Any] | None = None
    result: Any = None
    error: OperationError | None = None
    sequence: str
    cursor: str
    createdAt: str
    updatedAt: str
    expiresAt: str | None = None


class Operations(Answer):
    """One page of operations, newest first."""

    operations: list[Operation]
    next_cursor: str | None = Field(json_schema_extra={"type": ["string", "null"]})


class CancelRequested(Answer):
    """Cancelling is asked for; whether it happens the snapshot tells."""

    status: Literal["cancel_requested"]
    operation: Operation


class Instance(Answer):
    """An attached runtime and the state that was last projected."""

    instance_id: str
    name: str
    state: dict[str, Any]
    methods: list[str]
    revision: int
    attached: bool
    updated_at: str


class Instances(Answer):
    """One page of instances, by id."""

    instances: list[Instance]
    next_cursor: str | None = Field(json_schema_extra={"type": ["string", "null"]})
