"""Tasks: create, invoke, read, list, steer, resolve, and their messages (R140-R151, R157-R161)."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, Final

from aiosd.aios_wire import words
from aiosd.aios_wire.timestamps import duration
from aiosd.api.v1 import artifact_service_pb2, content_pb2, interruption_pb2, task_pb2
from aiosd.api.v1 import task_service_pb2 as wire
from aiosd.spelling import spelled
from gateway import projection, strict_json
from gateway.aios.parts import PartError, parse_part
from gateway.openapi import models, render
from gateway.openapi.errors import ApiError, invalid_param

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.api.v1 import artifact_pb2
    from gateway.openapi.call import Call

Json = dict[str, Any]

TASKS_PATH: Final = "/api/v1/tasks"
_PAGE: Final = 200
_MOST_ROUNDS: Final = 20
_INLINE_BYTES: Final = 1024 * 1024
"""Content of artifacts that a snapshot carries; beyond it, summaries alone."""
_ENDS_A_WAIT: Final = words.TERMINAL_STATES | words.INTERRUPTED_STATES
_NEEDED: Final = {
    "oauth2": ("authorization_code", "state"),
    "api_key": ("api_key",),
    "password": ("username", "password"),
    "certificate": ("certificate",),
    "approval": ("decision",),
}


async def create(call: Call, body: models.CreateTask) -> Json:
    """Make a task; it is durable before this answers."""
    request = _creation(call, body)
    made = await call.ask(
        call.daemon.tasks.CreateTask, request, repeatable=bool(request.request_id)
    )
    return render.accepted(made.task)


async def invoke(call: Call, body: models.Invoke) -> Json:
    """Make a task and wait for it; 504 names the task, which goes on (R157)."""
    wait_ms = body.timeout_ms or call.context.settings.sync_wait_ms
    request = _creation(call, body)
    request.wait.CopyFrom(duration(wait_ms))
    made = await call.ask(
        call.daemon.tasks.CreateTask, request, wait_ms=wait_ms, repeatable=bool(request.request_id)
    )
    if made.task.state not in _ENDS_A_WAIT:
        raise ApiError(
            504,
            "service_timeout",
            "the task has not ended yet and goes on; ask for it, do not submit it again",
            metadata={
                "task_id": made.task.task_id,
                "status_url": f"{TASKS_PATH}/{made.task.task_id}",
            },
        )
    return await _snapshot(call, made.task)


def _creation(call: Call, body: models.CreateTask) -> wire.CreateTaskRequest:
    key = call.idempotency_key(body.idempotency_key)
    request = wire.CreateTaskRequest(
        capability_id=body.capability_id,
        arguments=strict_json.dumps(body.arguments),
        context_id=body.context_id or "",
        metadata=strict_json.dumps(body.metadata),
        request_id=key or "",
        options=task_pb2.TaskOptions(priority=words.PRIORITIES[body.priority]),
    )
    if body.deadline_ms:
        request.options.deadline.CopyFrom(duration(body.deadline_ms))
    if body.message is not None:
        request.message.CopyFrom(_message(body.message, key))
    return request


def _message(given: str | models.MessageBody, key: str | None) -> content_pb2.Message:
    # The same request under the same key must be the same, the id that it gets here included.
    unique = hashlib.sha256(key.encode()).hexdigest()[:32] if key else uuid.uuid4().hex
    message = content_pb2.Message(
        message_id=f"msg-{unique}",
        role=content_pb2.ROLE_USER,
        status=content_pb2.MESSAGE_STATUS_COMPLETED,
    )
    if isinstance(given, str):
        message.parts.add(text=given)
        return message
    for index, part in enumerate(given.parts):
        if "type" not in part and isinstance(part.get("text"), str):
            part = {**part, "type": "text"}
        try:
            message.parts.append(parse_part(part))
        except PartError as refused:
            raise invalid_param(f"message.parts[{index}]", f"is no part: {refused}") from None
    return message


async def get(call: Call) -> Json:
    """Read a task with its artifacts."""
    return await _snapshot(call, await _read(call))


async def get_product(call: Call) -> Json:
    """Read the product projection of a task."""
    return render.product_task(await _read(call))


async def _read(call: Call) -> task_pb2.Task:
    request = wire.GetTaskRequest(task_id=call.path_id("task_id"))
    return (await call.read(call.daemon.tasks.GetTask, request)).task


async def _snapshot(call: Call, task: task_pb2.Task) -> Json:
    """A task with the content of its artifacts, where that is not too much for one answer."""
    if not task.artifacts or sum(one.size_bytes for one in task.artifacts) > _INLINE_BYTES:
        return render.task(task)
    artifacts: list[artifact_pb2.Artifact] = []
    for summary in task.artifacts:
        request = artifact_service_pb2.GetArtifactRequest(
            artifact_id=summary.artifact_id, task_id=task.task_id
        )
        artifacts.append((await call.read(call.daemon.artifacts.GetArtifact, request)).artifact)
    return render.task(task, artifacts)


async def list_(call: Call) -> Json:
    """List the caller's tasks, newest first. `status` may be repeated."""
    wanted: set[str] = set()
    for word in call.request.query_params.getlist("status"):
        known = spelled(word, projection.OPENAPI_STATUSES)
        if known is None:
            raise invalid_param("status", f"must be of {', '.join(projection.OPENAPI_STATUSES)}")
        wanted.add(known)
    states = [state for word in sorted(wanted) for state in projection.openapi_states(word)]
    found, cursor = await _page(
        call, states, lambda task: not wanted or projection.openapi_status(task) in wanted
    )
    return {"tasks": [render.task(task) for task in found], "next_cursor": cursor}


async def list_product(call: Call) -> Json:
    """List the product projections. `status` takes the five words and the legacy ones (R142)."""
    wanted: list[projection.Product] = []
    for word in call.request.query_params.getlist("status"):
        known = projection.read_product(word)
        if known is None:
            five = ", ".join(projection.PRODUCT_STATUSES)
            raise invalid_param("status", f"must be of {five}, or a legacy word for one of them")
        wanted.append(known)
    states = [state for one in wanted for state in projection.product_states(one.status)]

    def fits(task: task_pb2.Task) -> bool:
        shown = projection.product(task).members()
        return not wanted or any(one.members().items() <= shown.items() for one in wanted)

    found, cursor = await _page(call, states, fits)
    return {"tasks": [render.product_task(task) for task in found], "next_cursor": cursor}


async def _page(
    call: Call,
    states: list[task_pb2.TaskState.ValueType],
    fits: Callable[[task_pb2.Task], bool],
) -> tuple[list[task_pb2.Task], str | None]:
    """One page of the tasks that fit, and the cursor after it.

    The daemon knows states only; what this wire tells apart inside one is sorted out here, for so
    many rounds that a page may be short, but never so that a task is left out.
    """
    limit = call.limit()
    request = wire.ListTasksRequest(
        states=sorted(set(states)),
        capability_id=call.query("capability_id") or "",
        context_id=call.query("context_id") or "",
        page_token=call.query("cursor") or "",
        include_artifacts=True,
    )
    found: list[task_pb2.Task] = []
    for _ in range(_MOST_ROUNDS):
        request.page_size = limit - len(found)
        page = await call.read(call.daemon.tasks.ListTasks, request)
        found += filter(fits, page.tasks)
        request.page_token = page.next_page_token
        if not page.next_page_token or len(found) == limit:
            break
    return found, request.page_token or None


async def cancel(call: Call, body: models.Cancel) -> Json:
    """End a task; one that has ended stays as it is."""
    request = wire.CancelTaskRequest(task_id=call.path_id("task_id"), reason=body.reason)
    try:
        task = (await call.ask(call.daemon.tasks.CancelTask, request)).task
    except ApiError as refused:
        if refused.code != "conflict":
            raise
        task = await _read(call)
        if task.state not in words.TERMINAL_STATES:
            raise
    return await _snapshot(call, task)


async def continue_(call: Call, body: models.Continue) -> Json:
    """Give a task what it waits for."""
    if body.auth_grant is not None and body.input is not None:
        raise invalid_param("input", "and auth_grant exclude each other")
    if body.auth_grant is not None:
        return await _authenticate(call, body.auth_grant)
    if body.input is None:
        raise ApiError(400, "missing_param", "input or auth_grant is required", "input")
    given = {"text": body.input} if isinstance(body.input, str) else body.input
    request = wire.SubmitInputRequest(
        task_id=call.path_id("task_id"), input=strict_json.dumps(given)
    )
    return await _snapshot(call, (await call.ask(call.daemon.tasks.SubmitInput, request)).task)


async def _authenticate(call: Call, grant: models.AuthGrant) -> Json:
    for name in _NEEDED[grant.type]:
        if getattr(grant, name) is None:
            raise ApiError(
                400,
                "missing_param",
                f"auth_grant.{name} is required for {grant.type}",
                f"auth_grant.{name}",
            )
    response = interruption_pb2.AuthResponse(
        type=words.AUTH_TYPES[grant.type],
        authorization_code=grant.authorization_code or "",
        state=grant.state or "",
        api_key=grant.api_key or "",
        username=grant.username or "",
        password=grant.password or "",
        certificate=grant.certificate or "",
        approve=grant.decision == "approve",
        confirmation_id=grant.confirmation_id or "",
    )
    request = wire.AuthenticateTaskRequest(task_id=call.path_id("task_id"), auth_response=response)
    answer = await call.ask(call.daemon.tasks.AuthenticateTask, request)
    rendered = await _snapshot(call, answer.task)
    if answer.confirmation_id and "auth_request" in rendered:
        rendered["auth_request"]["confirmation_id"] = answer.confirmation_id
        rendered["auth_request"]["confirmations"] = answer.confirmations
    return rendered


async def resolve(call: Call, body: models.Resolve) -> Json:
    """Close an uncertain failure; the status stays failed, the certainty becomes certain."""
    request = wire.ResolveTaskRequest(
        task_id=call.path_id("task_id"), outcome=body.outcome, evidence=body.evidence
    )
    return await _snapshot(call, (await call.ask(call.daemon.tasks.ResolveTask, request)).task)


async def messages(call: Call) -> Json:
    """List the messages of a task in order."""
    request = wire.ListMessagesRequest(task_id=call.path_id("task_id"), page_size=_PAGE)
    found: list[Json] = []
    while True:
        page = await call.read(call.daemon.tasks.ListMessages, request)
        found += map(render.message, page.messages)
        if not page.next_page_token:
            return {"messages": found}
        request.page_token = page.next_page_token
