"""What a task that waits asks for, as the message of its status (R183)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gateway.a2a import mapping, words
from gateway.a2a.json_values import to_value

if TYPE_CHECKING:
    from a2a.types import a2a_pb2

    from aiosd.api.v1 import interruption_pb2, task_pb2


def prompt(
    task: task_pb2.Task, sequence: int, wait: interruption_pb2.Interruption
) -> a2a_pb2.Message:
    """What an interrupted task asks for, as the message of its status (R183).

    The first part is for a person; a second one, of data, says what an answer may be.
    """
    shown = mapping.spoken(task, sequence, wait.prompt or wait.auth_request.reason or wait.action)
    details: dict[str, Any] = {}
    if wait.options:
        details["options"] = [_option(option) for option in wait.options]
    if wait.schema:
        details["schema"] = json.loads(wait.schema)
    if wait.HasField("auth_request"):
        details["authRequest"] = _auth_request(wait.auth_request)
    if details:
        shown.parts.add().data.CopyFrom(to_value(details))
    record: dict[str, Any] = {
        "interruptionId": wait.interruption_id,
        "kind": words.NEEDS.get(wait.kind, ""),
        "action": wait.action,
        "satisfiableBy": list(wait.satisfiable_by),
        "scope": wait.scope,
        "idempotencyPoint": {
            "attempt": wait.idempotency_point.attempt,
            "reportNumber": wait.idempotency_point.report_number,
        },
        "followUp": ["SubscribeToTask", "GetTask", "pushNotification"],
    }
    if wait.HasField("expire_time"):
        record["expiresAt"] = wait.expire_time.ToJsonString()
    mapping.set_metadata(shown, {"aiosInterruption": record})
    return shown


def _option(option: interruption_pb2.InputOption) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": option.id, "label": option.label or option.id}
    if option.value:
        shown["value"] = json.loads(option.value)
    return shown


def _auth_request(request: interruption_pb2.AuthRequest) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": words.auth_type(request.type)}
    for name, value in (
        ("provider", request.provider),
        ("authorizationUrl", request.authorization_url),
        ("scopes", list(request.scopes)),
        ("reason", request.reason),
        ("permissionLevel", request.permission_level),
        ("permissions", list(request.permissions)),
        ("permissionScope", request.permission_scope),
        ("confirmationsRequired", request.confirmations_required),
        ("confirmations", request.confirmations),
    ):
        if value:
            shown[name] = value
    return shown
