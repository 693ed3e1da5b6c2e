"""Bodies of A2A 1.0 push notifications: one StreamResponse an event (a2a.md 5.10).

A stream of the gateway says the same of the event. Events that come in pairs (a state, and what
goes with it) are told by the second. The artifact of a result comes with the first of its pair, so
that nothing follows the end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiosd.a2a_wire import fragments, words
from aiosd.adapters.rpc.codec.events import to_event
from aiosd.api.v1 import content_pb2, event_pb2, task_pb2
from aiosd.application.trust_ports import Rendered

if TYPE_CHECKING:
    from aiosd.a2a_wire.fragments import Json
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task

_State = task_pb2.TaskState
# An executor reports while it works, whatever state the task has when the commit is done.
_REPORTING = _State.TASK_STATE_WORKING


def render_a2a(task: Task, event: Event) -> Rendered | None:
    """The body of an event; None for what the wire has no word for."""
    message = to_event(event)
    is_artifact, update = False, None
    match message.WhichOneof("payload"):
        case "status_changed":
            if message.status_changed.state == _State.TASK_STATE_COMPLETED:
                is_artifact, update = True, _result(task)
            else:
                update = _status_changed(task, message)
        case "input_required" | "auth_required" as kind:
            state = _State.Value(f"TASK_STATE_{kind.upper()}")
            wait = getattr(message, kind)
            asked = fragments.prompt(task.id, task.context_id, message.sequence - 1, wait)
            update = _status(message, state, asked)
        case "failed":
            update = _failed(task, message)
        case "result_stored":
            certain = fragments.end(task_pb2.OUTCOME_CERTAIN, 0)
            update = _status(message, _State.TASK_STATE_COMPLETED, None, certain)
        case "progressed":
            update = _status(message, _REPORTING, None, fragments.progress(message.progressed))
        case "message_changed":
            update = _said(task, message)
        case "artifact_changed":
            is_artifact, update = True, _chunk(message.artifact_changed)
    if update is None:
        return None
    name = "artifactUpdate" if is_artifact else "statusUpdate"
    body = {name: {"taskId": task.id, "contextId": task.context_id, **update}}
    return Rendered(name, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def _status_changed(task: Task, event: event_pb2.Event) -> Json | None:
    changed = event.status_changed
    if changed.state in words.WITH_COMPANION:
        return None
    metadata = fragments.end(changed.outcome, changed.retry_advice)
    message = None
    if changed.state == _State.TASK_STATE_PAUSED:
        metadata["aiosPaused"] = True
    if changed.state == _State.TASK_STATE_CANCELED and changed.reason:
        message = fragments.spoken(task.id, task.context_id, event.sequence, changed.reason)
    return _status(event, changed.state, message, metadata)


def _failed(task: Task, event: event_pb2.Event) -> Json:
    failed = event.failed
    is_rejected = failed.failure.reason == "rejected"
    state = _State.TASK_STATE_REJECTED if is_rejected else _State.TASK_STATE_FAILED
    metadata = fragments.end(failed.outcome, failed.retry_advice)
    why = fragments.spoken(task.id, task.context_id, event.sequence - 1, failed.failure.message)
    return _status(event, state, why, metadata | fragments.failure(failed.failure))


def _said(task: Task, event: event_pb2.Event) -> Json | None:
    said = event.message_changed
    if said.role != content_pb2.ROLE_AGENT or said.status == content_pb2.MESSAGE_STATUS_STREAMING:
        return None
    return _status(event, _REPORTING, fragments.message(said, task.id, task.context_id))


def _status(
    event: event_pb2.Event, state: int, message: Json | None, metadata: Json | None = None
) -> Json:
    status: Json = {"state": words.STATE[state]}
    if message is not None:
        status["message"] = message
    status["timestamp"] = event.time.ToJsonString()
    return {"status": status, **({"metadata": metadata} if metadata else {})}


def _result(task: Task) -> Json | None:
    artifact = fragments.result_artifact(task.result or "", None, has_artifacts=True)
    return None if artifact is None else {"artifact": artifact, "lastChunk": True}


def _chunk(changed: event_pb2.ArtifactChanged) -> Json:
    update: Json = {"artifact": fragments.artifact(changed.artifact, changed.parts)}
    if changed.append:
        update["append"] = True
    if changed.last_chunk:
        update["lastChunk"] = True
    return update | {"metadata": {"aiosPosition": changed.position}}
