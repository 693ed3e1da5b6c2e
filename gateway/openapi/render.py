"""Tasks, messages, operations and instances as this wire writes them (design.md 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiosd.aios_wire import fragments
from aiosd.aios_wire.timestamps import text_of, to_text
from aiosd.api.v1 import content_pb2, operation_pb2, task_pb2
from gateway import projection
from gateway.aios.parts import render_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.api.v1 import artifact_pb2

Json = dict[str, Any]

_WORDS: Final = {
    enum: {number: name.removeprefix(prefix).lower() for name, number in enum.items()}
    for enum, prefix in (
        (content_pb2.Role, "ROLE_"),
        (content_pb2.MessageStatus, "MESSAGE_STATUS_"),
        (operation_pb2.OperationStatus, "OPERATION_STATUS_"),
        (operation_pb2.EffectState, "EFFECT_STATE_"),
        (operation_pb2.ProjectionState, "PROJECTION_STATE_"),
    )
}
# Message envelopes and operations write `cancelled`, as the contract's names do (R171).
_ROLE: Final = _WORDS[content_pb2.Role]
_MESSAGE_STATUS: Final = _WORDS[content_pb2.MessageStatus]
_OPERATION_STATUS: Final = _WORDS[operation_pb2.OperationStatus]
_EFFECT: Final = _WORDS[operation_pb2.EffectState]
_PROJECTION: Final = _WORDS[operation_pb2.ProjectionState]


def accepted(value: task_pb2.Task) -> Json:
    """The answer of a creation; the same for the first request and for its repetitions."""
    return {
        "task_id": value.task_id,
        "status": "queued",
        "created_at": to_text(value.create_time),
    }


def task(value: task_pb2.Task, artifacts: Iterable[artifact_pb2.Artifact] | None = None) -> Json:
    """The snapshot of a task; `artifacts` with their parts, where they were read."""
    row = projection.row_of(value)
    metadata = dict(fragments.json_or(value.metadata, {}))
    if value.state == task_pb2.TASK_STATE_PAUSED:
        metadata["paused"] = True
    rendered: Json = {
        "task_id": value.task_id,
        "capability_id": value.capability_id,
        "context_id": value.context_id,
        "status": row.openapi,
        "product": projection.product(value).members(),
        "artifacts": [
            artifact(one) for one in (value.artifacts if artifacts is None else artifacts)
        ],
        "metadata": metadata,
        "created_at": to_text(value.create_time),
        "updated_at": to_text(value.update_time),
        **_moments(value, started_at="start_time", completed_at="end_time"),
        **_moments(value, deadline_at="deadline_time"),
    }
    if value.HasField("progress"):
        rendered["progress"] = fragments.progress_of(value.progress)
    if value.state == task_pb2.TASK_STATE_INPUT_REQUIRED:
        rendered["input_request"] = fragments.input_request(value.interruption)
    elif value.state == task_pb2.TASK_STATE_AUTH_REQUIRED:
        rendered["auth_request"] = fragments.auth_request(value.interruption)
    elif value.state == task_pb2.TASK_STATE_COMPLETED:
        rendered["result"] = fragments.json_or(value.result, None)
    elif value.HasField("failure"):
        rendered["error"] = task_error(value)
    if value.retried_from:
        rendered["retried_from"] = value.retried_from
    if value.HasField("resolution"):
        rendered["resolution"] = fragments.resolution(value.resolution)
    return rendered


def task_error(value: task_pb2.Task) -> Json:
    """The failure; its certainty and policy are those of the product, as this wire spells them."""
    error = fragments.task_error(value)
    view = projection.product(value)
    data = error["data"]
    data["outcome_certainty"], data["retry_policy"] = view.outcome_certainty, view.retry_policy
    return error


def artifact(value: artifact_pb2.Artifact) -> Json:
    """An artifact, with its parts if they were read."""
    rendered = fragments.artifact_summary(value)
    if value.parts:
        rendered["parts"] = render_parts(value.parts)
    return rendered


def product_task(value: task_pb2.Task) -> Json:
    """The product projection of a task alone."""
    return {
        "task_id": value.task_id,
        "capability_id": value.capability_id,
        "context_id": value.context_id,
        **projection.product(value).members(),
        "created_at": to_text(value.create_time),
        "updated_at": to_text(value.update_time),
        **_moments(value, completed_at="end_time"),
    }


def message(value: content_pb2.Message) -> Json:
    """One message envelope."""
    rendered: Json = {
        "message_id": value.message_id,
        "role": _ROLE[value.role],
        "status": _MESSAGE_STATUS[value.status],
        "parts": render_parts(value.parts),
        "created_at": to_text(value.create_time),
        "updated_at": to_text(value.update_time),
    }
    if value.stop_reason:
        rendered["stop_reason"] = value.stop_reason
    if value.in_reply_to:
        rendered["in_reply_to"] = value.in_reply_to
    return rendered


def operation(value: operation_pb2.Operation) -> Json:
    """The snapshot of an operation with every detail (R168)."""
    rendered: Json = {
        "id": value.operation_id,
        "instanceId": value.instance_id,
        "target": {"scope": value.target.scope, "id": value.target.id},
        "method": value.method,
        "transport": "service",
        "status": _OPERATION_STATUS[value.status],
        "effectState": _EFFECT[value.effect_state],
        "terminal": value.terminal,
        "projection": {
            "revision": value.projection_revision,
            "state": _PROJECTION[value.projection_state],
        },
        "product": projection.operation_product(value).members(),
        "sequence": str(value.sequence),
        "cursor": str(value.sequence),
        "createdAt": to_text(value.create_time),
        "updatedAt": to_text(value.update_time),
        **_moments(value, expiresAt="expire_time"),
    }
    if value.HasField("progress"):
        rendered["progress"] = {
            "sequence": str(value.progress.sequence),
            "phase": value.progress.phase,
            "current": value.progress.current,
            "total": value.progress.total,
        }
    if value.HasField("cancel_request"):
        rendered["cancelRequest"] = {
            "requestedBy": value.cancel_request.requested_by,
            "reason": value.cancel_request.reason,
            "requestedAt": to_text(value.cancel_request.time),
        }
    if value.result:
        rendered["result"] = fragments.json_or(value.result, None)
    if value.HasField("error"):
        rendered["error"] = {
            "code": value.error.code,
            "message": value.error.message,
            "operationId": value.operation_id,
            "effectState": _EFFECT[value.effect_state],
            "retryMode": value.error.retry_mode or "none",
        }
        if value.error.context:
            rendered["error"]["context"] = fragments.json_or(value.error.context, {})
    return rendered


def operation_event(value: operation_pb2.OperationEvent) -> Json:
    """One runtime event; `outcome` is how a runtime_rpc_response ended."""
    rendered: Json = {
        "type": value.type,
        "operationId": value.operation_id,
        "sequence": str(value.sequence),
        "cursor": str(value.sequence),
        "createdAt": to_text(value.time),
        "snapshot": operation(value.snapshot),
    }
    if value.type == "runtime_rpc_response":
        rendered["outcome"] = _OPERATION_STATUS[value.snapshot.status]
    return rendered


def instance(value: operation_pb2.Instance) -> Json:
    """An instance with the state that was last projected."""
    return {
        "instance_id": value.instance_id,
        "name": value.name or value.instance_id,
        "state": fragments.json_or(value.state, {}),
        "methods": list(value.methods),
        "revision": value.revision,
        "attached": value.attached,
        "updated_at": to_text(value.update_time),
    }


def _moments(value: task_pb2.Task | operation_pb2.Operation, **fields: str) -> Json:
    found = {name: text_of(value, field) for name, field in fields.items()}
    return {name: text for name, text in found.items() if text is not None}
