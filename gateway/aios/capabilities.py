"""Capabilities: list, info, invoke, status and cancel (wire.md 1.3, X26, X35, X46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from aiosd.aios_wire import errors, fragments, words
from aiosd.aios_wire.errors import AiosError
from aiosd.aios_wire.timestamps import duration, to_ms
from aiosd.api.v1 import (
    capability_pb2,
    capability_service_pb2,
    interruption_pb2,
    task_pb2,
    task_service_pb2,
)
from gateway import strict_json
from gateway.aios import render, tasks
from gateway.aios.daemon_errors import task_failure
from gateway.aios.params import Id, JsonObject, Params

if TYPE_CHECKING:
    from gateway.aios.method import Call

Json = dict[str, Any]

DEFAULT_TIMEOUT_MS: Final = 30_000
_PAGE_SIZE: Final = 200
_MAX_WAIT_MS: Final = 600_000


class ListParams(Params):
    """aios/capability.list."""

    namespace: Id | None = None
    category: Id | None = None


async def list_(params: ListParams, call: Call) -> Json:
    """List capabilities, those that no provider offers just now included."""
    found: list[capability_pb2.Capability] = []
    request = capability_service_pb2.ListCapabilitiesRequest(
        namespace=params.namespace or "", tag=params.category or "", page_size=_PAGE_SIZE
    )
    while True:
        page = await call.read(call.daemon.capabilities.ListCapabilities, request)
        found.extend(page.capabilities)
        if not page.next_page_token:
            return {"capabilities": [render.capability_row(one) for one in found]}
        request.page_token = page.next_page_token


class InfoParams(Params):
    """aios/capability.info."""

    capability_id: Id


async def info(params: InfoParams, call: Call) -> Json:
    """Describe a capability: its schemas, its permission level, its options."""
    request = capability_service_pb2.GetCapabilityRequest(capability_id=params.capability_id)
    try:
        answer = await call.read(call.daemon.capabilities.GetCapability, request)
    except AiosError as error:
        alias = tasks.capability_alias(params.capability_id)
        if error.entry is not errors.CAPABILITY_NOT_FOUND or alias is None:
            raise
        request.capability_id = alias
        answer = await call.read(call.daemon.capabilities.GetCapability, request)
    return render.capability(answer.capability)


class InvokeContext(Params):
    """On whose behalf."""

    session_id: Id | None = None


class InvokeOptions(Params):
    """How to invoke."""

    timeout_ms: Annotated[int, Field(ge=1, le=tasks.MAX_TIMEOUT_MS)] = DEFAULT_TIMEOUT_MS
    stream: bool = False
    idempotency_key: tasks.Key | None = None


class InvokeParams(Params):
    """aios/capability.invoke."""

    capability_id: Id
    arguments: JsonObject = Field(default_factory=dict)
    context: InvokeContext = InvokeContext()
    options: InvokeOptions = InvokeOptions()


async def invoke(params: InvokeParams, call: Call) -> Json:
    """Run a capability and wait for its result; a failure is the error of the call."""
    options = params.options
    task = await tasks.create_task(
        call,
        task_service_pb2.CreateTaskRequest(
            capability_id=params.capability_id,
            arguments=strict_json.dumps(params.arguments),
            options=task_pb2.TaskOptions(synchronous=True, timeout=duration(options.timeout_ms)),
            request_id=tasks.request_id(options.idempotency_key, call),
            session_id=params.context.session_id or call.session_id,
        ),
        wait_ms=0 if options.stream else min(call.limits.sync_wait_ms, _MAX_WAIT_MS),
    )
    status = words.status(task.state)
    if status == "failed":
        raise task_failure(fragments.task_error(task), task.task_id)
    if status == "canceled":
        raise AiosError(errors.TASK_ALREADY_CANCELED, data={"task_id": task.task_id})
    if status == "input_required":
        raise _input_required(task)
    if status == "auth_required":
        raise _permission_denied(task)
    rendered = render.task(task)
    return {
        "success": True,
        "status": status,
        "message": task.progress.message or status,
        "data": rendered.get("result"),
        "task_id": task.task_id,
        "execution_time_ms": _elapsed(task),
    }


class TaskParams(Params):
    """The task that an invocation made."""

    task_id: Id


_LEGACY_STATUS: Final = {"pending": "pending", "completed": "completed", "failed": "failed"}


async def status(params: TaskParams, call: Call) -> Json:
    """Say how an invocation fares, in the four words of this method (X46)."""
    answer = await call.read(
        call.daemon.tasks.GetTask, task_service_pb2.GetTaskRequest(task_id=params.task_id)
    )
    task = answer.task
    word = words.status(task.state)
    rendered: Json = {
        "task_id": task.task_id,
        "status": "failed" if word == "canceled" else _LEGACY_STATUS.get(word, "running"),
        "progress": int(task.progress.percent),
        "message": task.progress.message or task.state_reason,
    }
    if word == "completed":
        rendered["result"] = render.task(task)["result"]
    elif word == "failed":
        rendered["error"] = fragments.task_error(task)
    return rendered


async def cancel(params: TaskParams, call: Call) -> Json:
    """End an invocation that has not ended."""
    await call.ask(
        call.daemon.tasks.CancelTask, task_service_pb2.CancelTaskRequest(task_id=params.task_id)
    )
    return {"success": True}


def _input_required(task: task_pb2.Task) -> AiosError:
    request = fragments.input_request(task.interruption)
    return AiosError(
        errors.INPUT_REQUIRED,
        "the task waits for aios/task.input",
        data={"task_id": task.task_id, "current_status": "input_required", **request},
    )


def _permission_denied(task: task_pb2.Task) -> AiosError:
    waits_for = task.interruption.auth_request
    data: Json = {
        "task_id": task.task_id,
        "current_status": "auth_required",
        "request_id": task.interruption.interruption_id,
        "auth_request": fragments.auth_request(task.interruption),
    }
    if waits_for.type == interruption_pb2.AUTH_TYPE_APPROVAL:
        data["permission_level"] = waits_for.permission_level
        data["scope"] = waits_for.permission_scope
    return AiosError(
        errors.PERMISSION_DENIED, "the task waits for aios/task.authenticate", data=data
    )


def _elapsed(task: task_pb2.Task) -> int:
    if not task.HasField("start_time"):
        return 0
    until = task.end_time if task.HasField("end_time") else task.update_time
    return max(0, to_ms(until) - to_ms(task.start_time))
