"""Tasks, artifacts and capabilities as this wire writes them (wire.md 1.3, 1.6; design.md 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiosd.aios_wire import fragments, words
from aiosd.aios_wire.timestamps import duration_ms, text_of, to_ms, to_text
from aiosd.api.v1 import task_pb2
from gateway.aios.parts import render_parts

if TYPE_CHECKING:
    from aiosd.api.v1 import artifact_pb2, capability_pb2

Json = dict[str, Any]

_END_FIELDS: Final = {"completed": "completed_at", "failed": "failed_at", "canceled": "canceled_at"}


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
    rendered["artifacts"] = fragments.artifact_summaries(value.artifacts)
    rendered["metadata"] = fragments.json_or(value.metadata, {})
    if value.HasField("estimated_duration"):
        rendered["estimated_duration_ms"] = duration_ms(value.estimated_duration)
    if value.resume_pending:
        rendered["resume_pending"] = True
    if value.state == task_pb2.TASK_STATE_INPUT_REQUIRED:
        rendered["input_request"] = fragments.input_request(value.interruption)
    elif value.state == task_pb2.TASK_STATE_AUTH_REQUIRED:
        rendered["auth_request"] = fragments.auth_request(value.interruption)
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
        rendered["error"] = fragments.task_error(value)
    return rendered


def _ending(value: task_pb2.Task, status: str) -> Json:
    rendered: Json = {_END_FIELDS[status]: to_text(value.end_time)}
    if status == "completed":
        rendered["result"] = fragments.json_or(value.result, None)
        if value.result_reason:
            rendered["result_reason"] = value.result_reason
    elif status == "failed":
        rendered["error"] = fragments.task_error(value)
        rendered["outcome_certainty"] = words.OUTCOMES.get(value.outcome, "uncertain")
        rendered["retry_policy"] = words.ADVICE.get(value.retry_advice, "manual_review")
        if value.HasField("resolution"):
            rendered["resolution"] = fragments.resolution(value.resolution)
    return rendered


def progress(value: task_pb2.Task) -> Json:
    """How far a task has come; nothing yet is zero percent."""
    return fragments.progress_of(value.progress) if value.HasField("progress") else {"percent": 0}


def state_change(value: task_pb2.StateChange) -> Json:
    """One entry of a state history (R052)."""
    rendered: Json = {"state": words.status(value.state), "timestamp": to_text(value.time)}
    if value.reason:
        rendered["reason"] = value.reason
    if value.metadata:
        rendered["metadata"] = fragments.json_or(value.metadata, {})
    return rendered


def artifact(value: artifact_pb2.Artifact) -> Json:
    """An artifact with all of its parts (R081, R085)."""
    rendered = fragments.artifact_summary(value)
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
        "input": fragments.json_or(value.input_schema, {"type": "object"}),
        "output": fragments.json_or(value.output_schema, {}),
        "options": options,
        "tags": list(value.tags),
        "examples": list(value.examples),
    }


def _moment(value: task_pb2.Task, field: str, name: str) -> Json:
    text = text_of(value, field)
    return {} if text is None else {name: text}
