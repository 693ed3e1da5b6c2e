"""Bodies of A2A 1.0 push notifications: one StreamResponse an event, in ProtoJSON (a2a.md 5.10).

What a stream of the gateway says of an event, this says too; a test holds the two together. The
daemon writes it without the A2A SDK, which is the gateway's alone.

Events that come in pairs (a state, and what goes with it) are told by the second. The artifact of
a result comes with the first of its pair, so that nothing follows the end.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from aiosd.adapters.rpc.codec.events import to_event
from aiosd.api.v1 import content_pb2, event_pb2, failure_pb2, interruption_pb2, task_pb2
from aiosd.application.trust_ports import Rendered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.api.v1 import artifact_pb2
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task

Json = dict[str, Any]

MEDIA_TYPE = "application/a2a+json"
RESULT_ARTIFACT = "aios-result"

_State = task_pb2.TaskState
# An executor reports while it works, whatever state the task has when the commit is done.
_SPEAKING = _State.TASK_STATE_WORKING
_WITH_COMPANION = frozenset(
    {
        _State.TASK_STATE_FAILED,
        _State.TASK_STATE_REJECTED,
        _State.TASK_STATE_INPUT_REQUIRED,
        _State.TASK_STATE_AUTH_REQUIRED,
    }
)


def render_a2a(task: Task, event: Event) -> Rendered | None:
    """The body of an event; None for what the wire has no word for."""
    message = to_event(event)
    kind, update = _update(task, message)
    if update is None:
        return None
    update = {"taskId": task.id, "contextId": task.context_id, **update}
    text = json.dumps({kind: update}, ensure_ascii=False, separators=(",", ":"))
    return Rendered(kind, text.encode())


def _update(task: Task, event: event_pb2.Event) -> tuple[str, Json | None]:
    status = "statusUpdate"
    match event.WhichOneof("payload"):
        case "status_changed":
            if event.status_changed.state == _State.TASK_STATE_COMPLETED:
                return "artifactUpdate", _result(task)
            return status, _status_changed(task, event)
        case "input_required":
            return status, _interrupted(task, event, event.input_required)
        case "auth_required":
            return status, _interrupted(task, event, event.auth_required)
        case "failed":
            return status, _failed(task, event)
        case "result_stored":
            end = _end(task_pb2.OUTCOME_CERTAIN, task_pb2.RETRY_ADVICE_UNSPECIFIED)
            return status, _status(event, _State.TASK_STATE_COMPLETED, None, end)
        case "progressed":
            return status, _status(event, _SPEAKING, None, _progress(event.progressed))
        case "message_changed":
            return status, _said(task, event)
        case "artifact_changed":
            return "artifactUpdate", _chunk(event.artifact_changed)
        case _:
            return status, None


# --- status ---------------------------------------------------------------------------------------


def _status_changed(task: Task, event: event_pb2.Event) -> Json | None:
    changed = event.status_changed
    if changed.state in _WITH_COMPANION:
        return None
    metadata = _end(changed.outcome, changed.retry_advice)
    message = None
    if changed.state == _State.TASK_STATE_PAUSED:
        metadata["aiosPaused"] = True
    if changed.state == _State.TASK_STATE_CANCELED and changed.reason:
        message = _spoken(task, event.sequence, changed.reason)
    return _status(event, changed.state, message, metadata)


def _interrupted(task: Task, event: event_pb2.Event, wait: interruption_pb2.Interruption) -> Json:
    is_input = event.WhichOneof("payload") == "input_required"
    state = _State.TASK_STATE_INPUT_REQUIRED if is_input else _State.TASK_STATE_AUTH_REQUIRED
    words = wait.prompt or wait.auth_request.reason or wait.action
    message = _spoken(task, event.sequence - 1, words)
    details: Json = {}
    if wait.options:
        details["options"] = [_option(one) for one in wait.options]
    if wait.schema:
        details["schema"] = json.loads(wait.schema)
    if wait.HasField("auth_request"):
        details["authRequest"] = _auth_request(wait.auth_request)
    if details:
        message["parts"].append({"data": details})
    need = interruption_pb2.NeedKind.Name(wait.kind).removeprefix("NEED_KIND_").lower()
    record: Json = {
        "interruptionId": wait.interruption_id,
        "kind": need,
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
    message["metadata"] = {"aiosInterruption": record}
    return _status(event, state, message, {})


def _failed(task: Task, event: event_pb2.Event) -> Json:
    failed = event.failed
    rejected = failed.failure.reason == "rejected"
    state = _State.TASK_STATE_REJECTED if rejected else _State.TASK_STATE_FAILED
    kind = failure_pb2.FailureClass.Name(failed.failure.failure_class)
    metadata = _end(failed.outcome, failed.retry_advice) | {
        "aiosFailureClass": kind.removeprefix("FAILURE_CLASS_").lower(),
        "aiosReason": failed.failure.reason,
        "aiosErrorCode": failed.failure.code,
    }
    if failed.failure.data:
        metadata["aiosErrorData"] = json.loads(failed.failure.data)
    message = _spoken(task, event.sequence - 1, failed.failure.message)
    return _status(event, state, message, metadata)


def _said(task: Task, event: event_pb2.Event) -> Json | None:
    said = event.message_changed
    if said.role != content_pb2.ROLE_AGENT or said.status == content_pb2.MESSAGE_STATUS_STREAMING:
        return None
    message: Json = {
        "messageId": said.message_id,
        "contextId": task.context_id,
        "taskId": task.id,
        "role": "ROLE_AGENT",
        "parts": _parts(said.parts),
    }
    metadata = _members(said.metadata)
    if said.status != content_pb2.MESSAGE_STATUS_COMPLETED:
        word = content_pb2.MessageStatus.Name(said.status).removeprefix("MESSAGE_STATUS_")
        metadata["aiosMessageStatus"] = word.lower()
    if said.stop_reason and said.stop_reason != "end_turn":
        metadata["aiosStopReason"] = said.stop_reason
    if said.in_reply_to:
        metadata["aiosInReplyTo"] = said.in_reply_to
    if metadata:
        message["metadata"] = metadata
    for name, values in (
        ("extensions", list(said.extensions)),
        ("referenceTaskIds", list(said.reference_task_ids)),
    ):
        if values:
            message[name] = values
    return _status(event, _SPEAKING, message, {})


def _status(event: event_pb2.Event, state: int, message: Json | None, metadata: Json) -> Json:
    # A paused task is a working one here, with a mark (X43).
    shown = _State.TASK_STATE_WORKING if state == _State.TASK_STATE_PAUSED else state
    status: Json = {"state": _State.Name(shown)}  # type: ignore[arg-type]
    if message is not None:
        status["message"] = message
    status["timestamp"] = event.time.ToJsonString()
    return {"status": status, **({"metadata": metadata} if metadata else {})}


def _spoken(task: Task, sequence: int, words: str) -> Json:
    return {
        "messageId": f"{task.id}-{sequence}",
        "contextId": task.context_id,
        "taskId": task.id,
        "role": "ROLE_AGENT",
        "parts": [{"text": words}],
    }


def _end(outcome: int, advice: int) -> Json:
    metadata: Json = {}
    if outcome:
        word = task_pb2.Outcome.Name(outcome)  # type: ignore[arg-type]
        metadata["aiosOutcomeCertainty"] = word.removeprefix("OUTCOME_").lower()
    if advice:
        word = task_pb2.RetryAdvice.Name(advice)  # type: ignore[arg-type]
        metadata["aiosRetryPolicy"] = word.removeprefix("RETRY_ADVICE_").lower()
    return metadata


def _progress(progress: task_pb2.Progress) -> Json:
    shown: Json = {"percent": progress.percent}
    if progress.message:
        shown["message"] = progress.message
    if progress.HasField("current_step"):
        shown["currentStep"] = progress.current_step
    if progress.HasField("total_steps"):
        shown["totalSteps"] = progress.total_steps
    return {"aiosProgress": shown}


def _option(option: interruption_pb2.InputOption) -> Json:
    value = {"value": json.loads(option.value)} if option.value else {}
    return {"id": option.id, "label": option.label or option.id, **value}


def _auth_request(request: interruption_pb2.AuthRequest) -> Json:
    word = interruption_pb2.AuthType.Name(request.type)
    members = {
        "provider": request.provider,
        "authorizationUrl": request.authorization_url,
        "scopes": list(request.scopes),
        "reason": request.reason,
        "permissionLevel": request.permission_level,
        "permissions": list(request.permissions),
        "permissionScope": request.permission_scope,
        "confirmationsRequired": request.confirmations_required,
        "confirmations": request.confirmations,
    }
    shown = {name: value for name, value in members.items() if value}
    return {"type": word.removeprefix("AUTH_TYPE_").lower(), **shown}


# --- artifacts ------------------------------------------------------------------------------------


def _result(task: Task) -> Json | None:
    value = json.loads(task.result) if task.result else None
    if value is None:
        return None
    part = {"text": value} if isinstance(value, str) else {"data": value}
    artifact = {"artifactId": RESULT_ARTIFACT, "name": "result", "parts": [part]}
    return {"artifact": artifact, "lastChunk": True}


def _chunk(changed: event_pb2.ArtifactChanged) -> Json:
    update: Json = {"artifact": _artifact(changed.artifact, changed.parts)}
    if changed.append:
        update["append"] = True
    if changed.last_chunk:
        update["lastChunk"] = True
    update["metadata"] = {"aiosPosition": changed.position}
    return update


def _artifact(artifact: artifact_pb2.Artifact, parts: Iterable[content_pb2.Part]) -> Json:
    shown: Json = {"artifactId": artifact.artifact_id}
    if artifact.name:
        shown["name"] = artifact.name
    if artifact.description:
        shown["description"] = artifact.description
    shown["parts"] = _parts(parts)
    metadata = _members(artifact.metadata)
    for name, value in (
        ("aiosType", artifact.type),
        ("aiosMimeType", artifact.mime_type),
        ("aiosVersion", artifact.version if artifact.version > 1 else 0),
        ("aiosSha256", artifact.sha256),
    ):
        if value:
            metadata[name] = value
    return shown | ({"metadata": metadata} if metadata else {})


def _parts(parts: Iterable[content_pb2.Part]) -> list[Json]:
    return [_part(part) for part in parts]


def _part(part: content_pb2.Part) -> Json:
    shown: Json = {}
    match part.WhichOneof("content"):
        case "raw":
            shown["raw"] = base64.b64encode(part.raw).decode()
        case "url":
            shown["url"] = part.url
        case "data":
            shown["data"] = json.loads(part.data)
        case _:
            shown["text"] = part.text
    metadata = _members(part.metadata)
    for name, value in (
        ("metadata", metadata),
        ("filename", part.filename),
        ("mediaType", part.media_type),
    ):
        if value:
            shown[name] = value
    return shown


def _members(text: str) -> Json:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}
