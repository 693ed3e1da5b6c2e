"""Creating and reading tasks: aios/task.create, get, list and history (R003-R025, R032)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from aiosd.aios_wire import words
from aiosd.aios_wire.errors import CAPABILITY_NOT_FOUND, AiosError
from aiosd.aios_wire.timestamps import duration, duration_ms, from_ms, to_text
from aiosd.api.v1 import task_pb2, task_service_pb2
from gateway import strict_json
from gateway.aios import render
from gateway.aios.params import Id, JsonObject, Params, Timestamp, invalid

if TYPE_CHECKING:
    from gateway.aios.method import Call

Json = dict[str, Any]

MAX_TIMEOUT_MS = 30 * 86_400_000
MAX_DELAY_MS = 86_400_000
MAX_DEADLINE_MS = 7 * 86_400_000
MAX_OFFSET = 1_000_000

PriorityWord = Literal["low", "normal", "high", "urgent"]
StatusWord = Literal[
    "pending",
    "working",
    "paused",
    "input_required",
    "auth_required",
    "completed",
    "failed",
    "canceled",
    "cancelled",
]
Key = Annotated[str, Field(min_length=1, max_length=128)]


class RetryParams(Params):
    """How often a task is tried, the first time included, and the pause between."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 1
    delay_ms: Annotated[int, Field(ge=0, le=MAX_DELAY_MS)] = 0


class CreateOptions(Params):
    """How a task is to be run."""

    is_async: bool = Field(default=False, alias="async")
    priority: PriorityWord = "normal"
    timeout_ms: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS)] | None = None
    retry: RetryParams | None = None
    retry_safe: bool = False
    deadline_ms: Annotated[int, Field(ge=0, le=MAX_DEADLINE_MS)] = 0
    idempotency_key: Key | None = None


class CreateParams(Params):
    """aios/task.create."""

    capability_id: Id
    arguments: JsonObject = Field(default_factory=dict)
    options: CreateOptions = CreateOptions()
    metadata: JsonObject = Field(default_factory=dict)
    context_id: Key | None = None


async def create(params: CreateParams, call: Call) -> Json:
    """Create a task; with async false, wait for its end or its first question."""
    options = params.options
    task = await create_task(
        call,
        task_service_pb2.CreateTaskRequest(
            capability_id=params.capability_id,
            arguments=strict_json.dumps(params.arguments),
            context_id=params.context_id or "",
            options=task_options(options),
            metadata=strict_json.dumps(params.metadata),
            request_id=request_id(options.idempotency_key, call),
            session_id=call.session_id,
        ),
        wait_ms=0 if options.is_async else call.limits.sync_wait_ms,
    )
    if not options.is_async:
        return render.task(task)
    answer: Json = {
        "task_id": task.task_id,
        "status": words.status(task.state),
        "created_at": to_text(task.create_time),
    }
    if task.HasField("estimated_duration"):
        answer["estimated_duration_ms"] = duration_ms(task.estimated_duration)
    return answer


def request_id(key: str | None, call: Call) -> str:
    """The idempotency key of the options or of the header (X42); raises where they disagree."""
    header = call.idempotency_key
    if not (header.isascii() and header.isprintable()):
        raise invalid("Idempotency-Key", "must be printable ASCII")
    if key and header and key != header:
        raise invalid("options.idempotency_key", "differs from the header Idempotency-Key")
    return key or header


async def create_task(
    call: Call, request: task_service_pb2.CreateTaskRequest, *, wait_ms: int
) -> task_pb2.Task:
    """Create a task and wait at most `wait_ms` for its end or its first question."""
    if wait_ms:
        request.wait.CopyFrom(duration(wait_ms))
    create_ = call.daemon.tasks.CreateTask
    is_keyed = bool(request.request_id)
    try:
        answer = await call.ask(create_, request, wait_ms=wait_ms, repeatable=is_keyed)
    except AiosError as error:
        alias = capability_alias(request.capability_id)
        if error.entry is not CAPABILITY_NOT_FOUND or alias is None:
            raise
        request.capability_id = alias
        answer = await call.ask(create_, request, wait_ms=wait_ms, repeatable=is_keyed)
    return answer.task


def capability_alias(capability_id: str) -> str | None:
    """The other name of a capability: `app.*` ids are read as `compat.*` ones (X49)."""
    prefix, _, rest = capability_id.partition(".")
    return f"compat.{rest}" if prefix == "app" and rest else None


def task_options(options: CreateOptions) -> task_pb2.TaskOptions:
    """The options of the contract."""
    made = task_pb2.TaskOptions(
        priority=words.PRIORITIES[options.priority],
        retry_safe=options.retry_safe,
        synchronous=not options.is_async,
    )
    if options.timeout_ms is not None:
        made.timeout.CopyFrom(duration(options.timeout_ms))
    if options.retry is not None:
        made.retry.max_attempts = options.retry.max_attempts
        made.retry.delay.CopyFrom(duration(options.retry.delay_ms))
    if options.deadline_ms:
        made.deadline.CopyFrom(duration(options.deadline_ms))
    return made


class GetParams(Params):
    """aios/task.get."""

    task_id: Id
    include_history: bool = False


async def get(params: GetParams, call: Call) -> Json:
    """Read a task, with its state history if asked for."""
    answer = await call.read(
        call.daemon.tasks.GetTask,
        task_service_pb2.GetTaskRequest(
            task_id=params.task_id, include_history=params.include_history
        ),
    )
    return render.task(answer.task, include_history=params.include_history)


class Pagination(Params):
    """Which rows of a list."""

    limit: Annotated[int, Field(ge=1, le=200)] = 50
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0


class ListFilter(Params):
    """Which tasks; `*` in capability_id stands for any text."""

    status: list[StatusWord] = Field(default_factory=list)
    capability_id: Id | None = None


class Sort(Params):
    """In which order."""

    field: Literal["created_at", "started_at", "updated_at", "priority"] = "created_at"
    order: Literal["asc", "desc"] = "desc"


class ListParams(Params):
    """aios/task.list."""

    filter: ListFilter = ListFilter()
    pagination: Pagination = Pagination()
    sort: Sort = Sort()


_ORDERS = {
    "created_at": task_service_pb2.TASK_ORDER_CREATE_TIME,
    "started_at": task_service_pb2.TASK_ORDER_START_TIME,
    "updated_at": task_service_pb2.TASK_ORDER_UPDATE_TIME,
    "priority": task_service_pb2.TASK_ORDER_PRIORITY,
}


async def list_(params: ListParams, call: Call) -> Json:
    """List the caller's tasks."""
    answer = await call.read(
        call.daemon.tasks.ListTasks,
        task_service_pb2.ListTasksRequest(
            states=words.states(params.filter.status),
            capability_id=params.filter.capability_id or "",
            order=_ORDERS[params.sort.field],
            ascending=params.sort.order == "asc",
            page_size=params.pagination.limit,
            skip=params.pagination.offset,
            include_total=True,
        ),
    )
    return _page(answer, params.pagination, [render.row(task) for task in answer.tasks])


class HistoryFilter(Params):
    """Which tasks; the bounds are inclusive and apply to created_at."""

    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    status: list[StatusWord] = Field(default_factory=list)
    capability_id: Id | None = None


class HistoryParams(Params):
    """aios/task.history."""

    filter: HistoryFilter = HistoryFilter()
    pagination: Pagination = Pagination()


async def history(params: HistoryParams, call: Call) -> Json:
    """List tasks that have ended, or those with the statuses asked for."""
    wanted = params.filter
    request = task_service_pb2.ListTasksRequest(
        states=words.states(wanted.status or words.TERMINAL),
        capability_id=wanted.capability_id or "",
        order=task_service_pb2.TASK_ORDER_CREATE_TIME,
        page_size=params.pagination.limit,
        skip=params.pagination.offset,
        include_total=True,
    )
    if wanted.start_time is not None:
        request.created_since.CopyFrom(from_ms(wanted.start_time))
    if wanted.end_time is not None:
        request.created_until.CopyFrom(from_ms(wanted.end_time))
    answer = await call.read(call.daemon.tasks.ListTasks, request)
    return _page(answer, params.pagination, [render.history_row(task) for task in answer.tasks])


def _page(
    answer: task_service_pb2.ListTasksResponse, pagination: Pagination, rows: list[Json]
) -> Json:
    return {
        "tasks": rows,
        "total": answer.total_size,
        "has_more": pagination.offset + len(rows) < answer.total_size,
    }
