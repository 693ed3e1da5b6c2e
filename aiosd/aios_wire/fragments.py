"""Parts of tasks and events that are written alike wherever they stand (wire.md 1.3, 1.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from aiosd.aios_wire import errors, words
from aiosd.aios_wire.timestamps import duration_ms, to_text
from aiosd.api.v1 import task_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.api.v1 import artifact_pb2, failure_pb2, interruption_pb2

Json = dict[str, Any]

_FAILURE_ENTRIES: Final = {
    "timeout": errors.TIMEOUT,
    "wait_expired": errors.TIMEOUT,
    "expired": errors.TIMEOUT,
    "agent_lost": errors.AGENT_LOST,
    "rejected": errors.TASK_REJECTED,
    "permission_denied": errors.PERMISSION_DENIED,
    "user_declined": errors.PERMISSION_DENIED,
}
_TASK_FAILED_ID: Final = "AIOS-TASK-FAILED"
_CODES: Final = [entry.code for entry in errors.ERRORS.values()]
_ENTRIES_OF_CODES: Final = {
    entry.code: entry for entry in errors.ERRORS.values() if _CODES.count(entry.code) == 1
}
"""Entries that a code alone tells apart."""


def task_error(value: task_pb2.Task) -> Json:
    """The `error` of a failed or rejected task (R106)."""
    return failure(
        value.failure,
        rejected=value.state == task_pb2.TASK_STATE_REJECTED,
        failed_at=to_text(value.end_time),
        trace_parent=value.trace_parent,
        outcome=value.outcome,
        advice=value.retry_advice,
    )


def failure(
    value: failure_pb2.Failure,
    *,
    rejected: bool,
    failed_at: str,
    trace_parent: str,
    outcome: task_pb2.Outcome.ValueType,
    advice: task_pb2.RetryAdvice.ValueType,
) -> Json:
    """A failure as an error object. What the failure itself says in its data is never replaced."""
    reason = "rejected" if rejected else value.reason
    entry = _FAILURE_ENTRIES.get(reason) or _ENTRIES_OF_CODES.get(value.code)
    given = json_or(value.data, {})
    data: Json = {
        "reason": reason,
        "retryable": value.retryable,
        "outcome_certainty": words.OUTCOMES.get(outcome, "uncertain"),
        "retry_policy": words.ADVICE.get(advice, "manual_review"),
        "error_id": entry.error_id if entry else _TASK_FAILED_ID,
        "timestamp": failed_at,
        "trace_id": trace_parent.split("-")[1] if trace_parent.count("-") == 3 else "",
        **(given if isinstance(given, dict) else {"value": given}),
    }
    if rejected:
        entry = errors.TASK_REJECTED
        data["reason"], data["error_id"] = "rejected", entry.error_id
        return {"code": entry.code, "message": value.message or entry.message, "data": data}
    return {"code": value.code, "message": value.message, "data": data}


def resolution(value: task_pb2.Resolution) -> Json:
    """How a person closed an uncertain failure."""
    rendered: Json = {
        "outcome": value.outcome,
        "evidence": value.evidence,
        "by": value.by,
        "at": to_text(value.time),
    }
    if value.retried_as:
        rendered["retried_as"] = value.retried_as
    return rendered


def progress_of(value: task_pb2.Progress) -> Json:
    """Progress with the members that were reported (R020)."""
    percent = value.percent
    rendered: Json = {"percent": int(percent) if percent.is_integer() else percent}
    if value.message:
        rendered["message"] = value.message
    if value.HasField("current_step"):
        rendered["current_step"] = value.current_step
    if value.HasField("total_steps"):
        rendered["total_steps"] = value.total_steps
    return rendered


def input_request(value: interruption_pb2.Interruption) -> Json:
    """The question of a task that waits for input: prompt, options, schema."""
    rendered: Json = {"prompt": value.prompt, "options": [_option(o) for o in value.options]}
    if value.schema:
        rendered["schema"] = json_or(value.schema, {})
    return rendered | _waiting(value)


def auth_request(value: interruption_pb2.Interruption) -> Json:
    """The authorization that a task waits for, with the members that apply (R107)."""
    request = value.auth_request
    rendered: Json = {"type": words.auth_type(request.type)}
    if request.provider:
        rendered["provider"] = request.provider
    if request.authorization_url:
        rendered["authorization_url"] = request.authorization_url
    if request.scopes:
        rendered["scopes"] = list(request.scopes)
    if request.reason or value.prompt:
        rendered["reason"] = request.reason or value.prompt
    if request.confirmations_required:
        rendered["permission_level"] = request.permission_level
        rendered["permissions"] = list(request.permissions)
        rendered["scope"] = request.permission_scope
        rendered["confirmations_required"] = request.confirmations_required
        rendered["confirmations"] = request.confirmations
    return rendered | _waiting(value)


def _option(value: interruption_pb2.InputOption) -> Json:
    rendered: Json = {"id": value.id, "label": value.label or value.id}
    if value.value:
        rendered["value"] = json_or(value.value, None)
    return rendered


def _waiting(value: interruption_pb2.Interruption) -> Json:
    rendered: Json = {"interruption_id": value.interruption_id}
    if value.HasField("timeout"):
        rendered["timeout_ms"] = duration_ms(value.timeout)
    if value.HasField("expire_time"):
        rendered["expires_at"] = to_text(value.expire_time)
    return rendered


def artifact_summaries(values: Iterable[artifact_pb2.Artifact]) -> list[Json]:
    """Artifacts without their parts (X32)."""
    return [artifact_summary(value) for value in values]


def artifact_summary(value: artifact_pb2.Artifact) -> Json:
    """An artifact without its parts."""
    rendered: Json = {
        "id": value.artifact_id,
        "name": value.name,
        "type": value.type,
        "mime_type": value.mime_type,
        "created_at": to_text(value.create_time),
        "metadata": {
            **json_or(value.metadata, {}),
            "source_task": value.task_id,
            "version": value.version,
        },
    }
    if value.description:
        rendered["description"] = value.description
    if value.sealed:
        rendered["size"] = value.size_bytes
        rendered["sha256"] = value.sha256
    else:
        rendered["incomplete"] = True
    return rendered


def json_or(text: str, empty: Any) -> Any:
    """The value of JSON text, `empty` for none."""
    # The daemon checked it when it came in; integers beyond a double's must survive the way out.
    return json.loads(text) if text else empty
