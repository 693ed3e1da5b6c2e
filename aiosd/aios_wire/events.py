"""Events of a task as this wire tells them (wire.md 1.4, R064-R071)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aiosd.aios_wire import fragments, words
from aiosd.aios_wire.timestamps import to_text
from aiosd.api.v1 import task_pb2

if TYPE_CHECKING:
    from aiosd.api.v1 import event_pb2

Json = dict[str, Any]


def name_and_data(event: event_pb2.Event, trace_parent: str) -> tuple[str, Json] | None:
    """The name and the data of an event; None for what this wire does not tell."""
    data: Json = {"task_id": event.task_id}
    match event.WhichOneof("payload"):
        case "status_changed":
            return "task.status", data | _status(event)
        case "progressed":
            return "task.progress", data | {"progress": fragments.progress_of(event.progressed)}
        case "artifact_changed" if event.artifact_changed.last_chunk:
            summary = fragments.artifact_summary(event.artifact_changed.artifact)
            return "task.artifact", data | {"artifact": summary}
        case "input_required":
            return "task.input_required", data | fragments.input_request(event.input_required)
        case "auth_required":
            request = fragments.auth_request(event.auth_required)
            return "task.auth_required", data | {
                "status": "auth_required",
                "auth_request": request,
            }
        case "result_stored":
            return "task.result", data | {
                "result": json.loads(event.result_stored.result or "null"),
                "artifacts": fragments.artifact_summaries(event.result_stored.artifacts),
            }
        case "failed":
            return "task.error", data | _error(event, trace_parent)
        case "logged":
            level = words.LOG_LEVELS.get(event.logged.level, "INFO")
            return "task.log", data | _log(event, level, event.logged.message)
        case "attempt_changed":
            return "task.log", data | _attempt(event)
        case "resolved":
            return "task.log", data | _resolved(event)
        case _:
            return None


def _status(event: event_pb2.Event) -> Json:
    change = event.status_changed
    data: Json = {"status": words.status(change.state), "timestamp": to_text(event.time)}
    if change.reason:
        data["reason"] = change.reason
    if change.state in (task_pb2.TASK_STATE_FAILED, task_pb2.TASK_STATE_REJECTED):
        data["outcome_certainty"] = words.OUTCOMES.get(change.outcome, "uncertain")
        data["retry_policy"] = words.ADVICE.get(change.retry_advice, "manual_review")
    return data


def _error(event: event_pb2.Event, trace_parent: str) -> Json:
    failed_at = to_text(event.time)
    error = fragments.failure(
        event.failed.failure,
        rejected=event.failed.failure.reason == "rejected",
        failed_at=failed_at,
        trace_parent=event.trace_parent or trace_parent,
        outcome=event.failed.outcome,
        advice=event.failed.retry_advice,
    )
    return {"error": error, "failed_at": failed_at}


def _log(event: event_pb2.Event, level: str, message: str) -> Json:
    return {"level": level, "message": message, "timestamp": to_text(event.time)}


def _attempt(event: event_pb2.Event) -> Json:
    changed = event.attempt_changed
    level = "INFO" if changed.change == "started" else "WARN"
    because = f": {changed.reason}" if changed.reason else ""
    line = _log(event, level, f"attempt {changed.attempt} {changed.change}{because}")
    return line | {"attempt": changed.attempt, "change": changed.change}


def _resolved(event: event_pb2.Event) -> Json:
    resolution = fragments.resolution(event.resolved)
    message = f"an uncertain failure was resolved as {event.resolved.outcome}"
    return _log(event, "WARN", message) | {"resolution": resolution}
