"""Steering a task: cancel, pause, resume, input and authenticate (R026-R031, R107-R111)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from aiosd.aios_wire import words
from aiosd.aios_wire.timestamps import to_text
from aiosd.api.v1 import interruption_pb2, task_pb2, task_service_pb2
from gateway import strict_json
from gateway.aios.params import Id, JsonObject, Params, invalid

if TYPE_CHECKING:
    from gateway.aios.method import Call

Json = dict[str, Any]
Reason = Annotated[str, Field(max_length=1024)]
Secret = Annotated[str, Field(min_length=1, max_length=65_536)]

# Pausing waits for the provider; the bound is the daemon's.
_PAUSE_WAIT_MS: Final = 60_000
_PEM: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]{1,64})-----\s+[A-Za-z0-9+/=\s]+-----END \1-----", re.ASCII
)
_REQUIRED: Final = {
    "oauth2": ("authorization_code", "state"),
    "api_key": ("api_key",),
    "password": ("username", "password"),
    "certificate": ("certificate",),
    "approval": ("decision",),
}


class CancelParams(Params):
    """aios/task.cancel."""

    task_id: Id
    reason: Reason = ""


async def cancel(params: CancelParams, call: Call) -> Json:
    """End a task that has not ended."""
    answer = await call.ask(
        call.daemon.tasks.CancelTask,
        task_service_pb2.CancelTaskRequest(task_id=params.task_id, reason=params.reason),
    )
    return _changed(answer.task, "canceled_at")


class PauseParams(Params):
    """aios/task.pause."""

    task_id: Id
    reason: Reason = ""


async def pause(params: PauseParams, call: Call) -> Json:
    """Stop a working task at its next checkpoint."""
    answer = await call.ask(
        call.daemon.tasks.PauseTask,
        task_service_pb2.PauseTaskRequest(task_id=params.task_id, reason=params.reason),
        wait_ms=_PAUSE_WAIT_MS,
    )
    return _changed(answer.task, "paused_at")


class ResumeParams(Params):
    """aios/task.resume."""

    task_id: Id
    reason: Reason = ""


async def resume(params: ResumeParams, call: Call) -> Json:
    """Let a paused task go on."""
    answer = await call.ask(
        call.daemon.tasks.ResumeTask,
        task_service_pb2.ResumeTaskRequest(task_id=params.task_id, reason=params.reason),
        wait_ms=_PAUSE_WAIT_MS,
    )
    return _changed(answer.task, "resumed_at")


class InputParams(Params):
    """aios/task.input."""

    task_id: Id
    input: JsonObject
    interruption_id: Id | None = None


async def input_(params: InputParams, call: Call) -> Json:
    """Answer the question of a task."""
    answer = await call.ask(
        call.daemon.tasks.SubmitInput,
        task_service_pb2.SubmitInputRequest(
            task_id=params.task_id,
            input=strict_json.dumps(params.input),
            interruption_id=params.interruption_id or "",
        ),
    )
    return _changed(answer.task, "input_accepted_at")


class AuthResponseParams(Params):
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


class AuthenticateParams(Params):
    """aios/task.authenticate."""

    task_id: Id
    auth_response: AuthResponseParams
    interruption_id: Id | None = None


async def authenticate(params: AuthenticateParams, call: Call) -> Json:
    """Give a task the credential or the decision that it waits for."""
    given = params.auth_response
    for name in _REQUIRED[given.type]:
        if getattr(given, name) is None:
            raise invalid(f"auth_response.{name}", f"is required for {given.type}")
    if given.certificate is not None and not _PEM.search(given.certificate):
        raise invalid("auth_response.certificate", "must be a PEM text")
    answer = await call.ask(
        call.daemon.tasks.AuthenticateTask,
        task_service_pb2.AuthenticateTaskRequest(
            task_id=params.task_id,
            interruption_id=params.interruption_id or "",
            auth_response=interruption_pb2.AuthResponse(
                type=words.AUTH_TYPES[given.type],
                authorization_code=given.authorization_code or "",
                state=given.state or "",
                api_key=given.api_key or "",
                username=given.username or "",
                password=given.password or "",
                certificate=given.certificate or "",
                approve=given.decision == "approve",
                confirmation_id=given.confirmation_id or "",
            ),
        ),
    )
    rendered = _changed(answer.task, "authenticated_at")
    if answer.confirmations:
        rendered["confirmations"] = answer.confirmations
        required = answer.task.interruption.auth_request.confirmations_required
        rendered["confirmations_required"] = max(required, answer.confirmations)
    if answer.confirmation_id:
        rendered["confirmation_id"] = answer.confirmation_id
    return rendered


def _changed(task: task_pb2.Task, moment: str) -> Json:
    """The answer of every change: the status that it led to, and when (X13)."""
    rendered: Json = {
        "task_id": task.task_id,
        "status": words.status(task.state),
        moment: to_text(task.update_time),
    }
    if task.resume_pending:
        rendered["resume_pending"] = True
    return rendered
