"""Tasks, artifacts and capabilities as this wire writes them (wire.md 1.3, 1.6; design.md 15)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from aiosd.api.v1 import task_pb2
from gateway.aios import errors, words
from gateway.aios.parts import render_parts
from gateway.aios.timestamps import duration_ms, text_of, to_ms, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.api.v1 import artifact_pb2, capability_pb2, failure_pb2, interruption_pb2

Json = dict[str, Any]

_END_FIELDS: Final = {"completed": "completed_at", "failed": "failed_at", "canceled": "canceled_at"}
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


def task(value: task_pb2.Task, *, include_history: bool = False) -> Json:
    """The full task, as `aios/task.get` returns it (R016)."""
    status = words.status(value.state)
    rendered: Json = {
        "task_id": value.task_id,
        "capability_id": value.capability_id,
        "context_id": value.context_id,
        "status": status,
        "progress": progress(value),
        "priority": words.priority(value.options.priority),
        "attempt": value.attempt,
        "created_at": to_text(value.create_time),
    }
    if value.HasField("start_time"):
        rendered["started_at"] = to_text(value.start_time)
    rendered["updated_at"] = to_text(value.update_time)
    if value.state_reason:
        rendered["status_reason"] = value.state_reason
    rendered["artifacts"] = artifact_summaries(value.artifacts)
    rendered["metadata"] = _json(value.metadata, {})
    if value.HasField("estimated_duration"):
        rendered["estimated_duration_ms"] = duration_ms(value.estimated_duration)
    if value.resume_pending:
        rendered["resume_pending"] = True
    if value.state == task_pb2.TASK_STATE_INPUT_REQUIRED:
        rendered["input_request"] = input_request(value.interruption)
    elif value.state == task_pb2.TASK_STATE_AUTH_REQUIRED:
        rendered["auth_request"] = auth_request(value.interruption)
    elif value.state in words.TERMINAL_STATES:
        rendered |= _ending(value, status)
    if value.retried_from:
        rendered["retried_from"] = value.retried_from
    if include_history:
        rendered["state_history"] = [state_change(change) for change in value.state_history]
    return rendered


def row(value: task_pb2.Task) -> Json:
    """A task in `aios/task.list` (R024)."""
    return {
        "task_id": value.task_id,
        "capability_id": value.capability_id,
        "status": words.status(value.state),
        "progress": progress(value),
        "priority": words.priority(value.options.priority),
        "created_at": to_text(value.create_time),
        **_moment(value, "start_time", "started_at"),
    }


def history_row(value: task_pb2.Task) -> Json:
    """A task in `aios/task.history`."""
    status = words.status(value.state)
    rendered: Json = {
        "task_id": value.task_id,
        "capability_id": value.capability_id,
        "status": status,
        "created_at": to_text(value.create_time),
        **_moment(value, "start_time", "started_at"),
    }
    if value.HasField("end_time") and status in _END_FIELDS:
        rendered[_END_FIELDS[status]] = to_text(value.end_time)
        started = value.start_time if value.HasField("start_time") else value.end_time
        rendered["duration_ms"] = max(0, to_ms(value.end_time) - to_ms(started))
    if value.HasField("failure"):
        rendered["error"] = task_error(value)
    return rendered


def _ending(value: task_pb2.Task, status: str) -> Json:
    rendered: Json = {_END_FIELDS[status]: to_text(value.end_time)}
    if status == "completed":
        rendered["result"] = _json(value.result, None)
        if value.result_reason:
            rendered["result_reason"] = value.result_reason
    elif status == "failed":
        rendered["error"] = task_error(value)
        rendered["outcome_certainty"] = words.OUTCOMES.get(value.outcome, "uncertain")
        rendered["retry_policy"] = words.ADVICE.get(value.retry_advice, "manual_review")
        if value.HasField("resolution"):
            rendered["resolution"] = resolution(value.resolution)
    return rendered


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
    given = _json(value.data, {})
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


def progress(value: task_pb2.Task) -> Json:
    """How far a task has come; nothing yet is zero percent."""
    return progress_of(value.progress) if value.HasField("progress") else {"percent": 0}


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


def state_change(value: task_pb2.StateChange) -> Json:
    """One entry of a state history (R052)."""
    rendered: Json = {"state": words.status(value.state), "timestamp": to_text(value.time)}
    if value.reason:
        rendered["reason"] = value.reason
    if value.metadata:
        rendered["metadata"] = _json(value.metadata, {})
    return rendered


def input_request(value: interruption_pb2.Interruption) -> Json:
    """The question of a task that waits for input: prompt, options, schema."""
    rendered: Json = {"prompt": value.prompt, "options": [_option(o) for o in value.options]}
    if value.schema:
        rendered["schema"] = _json(value.schema, {})
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
        rendered["value"] = _json(value.value, None)
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
            **_json(value.metadata, {}),
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


def artifact(value: artifact_pb2.Artifact) -> Json:
    """An artifact with all of its parts (R081, R085)."""
    rendered = artifact_summary(value)
    rendered["parts"] = render_parts(value.parts)
    return rendered


def capability_row(value: capability_pb2.Capability) -> Json:
    """A capability in a list."""
    return {
        "id": value.capability_id,
        "name": value.name or value.capability_id,
        "description": value.description,
        "namespace": value.capability_id.rpartition(".")[0],
        "version": value.version,
        "permission_level": words.level(value.permission_level),
        "available": value.provider_count > 0,
    }


def capability(value: capability_pb2.Capability) -> Json:
    """A capability with its schemas and its permissions."""
    permissions = list(value.permissions) or [f"aios.permission.{value.capability_id}"]
    options: Json = {
        "async": True,
        "streaming": True,
        "pausable": value.pausable,
        "idempotent": value.retry_safe,
    }
    if value.HasField("default_timeout"):
        options["timeout_ms"] = duration_ms(value.default_timeout)
    return {
        **capability_row(value),
        "tool_id": value.tool_id or value.capability_id,
        "permission": {
            "level": words.level(value.permission_level),
            "scope": permissions[0],
        },
        "permissions": permissions,
        "input": _json(value.input_schema, {"type": "object"}),
        "output": _json(value.output_schema, {}),
        "options": options,
        "tags": list(value.tags),
        "examples": list(value.examples),
    }


def _json(text: str, empty: Any) -> Any:
    # The daemon checked it when it came in; integers beyond a double's must survive the way out.
    return json.loads(text) if text else empty


def _moment(value: task_pb2.Task, field: str, name: str) -> Json:
    text = text_of(value, field)
    return {} if text is None else {name: text}
