"""Tasks, messages, parts and artifacts between the daemon's contract and A2A 1.0 (R088, X43).

The one place that knows both shapes. Parts are the same thing on both sides. What A2A has no field
for goes into metadata under keys that begin with `aios`, and comes back from there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from a2a.types import a2a_pb2

from aiosd.api.v1 import artifact_pb2, content_pb2, task_pb2
from gateway import strict_json
from gateway.a2a import words
from gateway.a2a.json_values import (
    from_struct,
    from_value,
    members,
    object_text,
    to_struct,
    to_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.timestamp_pb2 import Timestamp

    from aiosd.api.v1 import failure_pb2

_ARTIFACT_TYPE: Final = "aiosType"
_ARTIFACT_MEDIA_TYPE: Final = "aiosMimeType"
_ARTIFACT_FACTS: Final = ("aiosVersion", "aiosSha256", "aiosIncomplete")


# --- parts ----------------------------------------------------------------------------------------


def to_part(part: content_pb2.Part) -> a2a_pb2.Part:
    """A part as A2A writes it."""
    shown = a2a_pb2.Part(filename=part.filename, media_type=part.media_type)
    match part.WhichOneof("content"):
        case "raw":
            shown.raw = part.raw
        case "url":
            shown.url = part.url
        case "data":
            shown.data.CopyFrom(to_value(json.loads(part.data)))
        case _:
            shown.text = part.text
    set_metadata(shown, members(part.metadata))
    return shown


def from_part(part: a2a_pb2.Part) -> content_pb2.Part:
    """A part as the daemon keeps it; raises ValueError on a number that JSON cannot write."""
    kept = content_pb2.Part(
        filename=part.filename,
        media_type=part.media_type,
        metadata=object_text(part.metadata),
    )
    match part.WhichOneof("content"):
        case "text":
            kept.text = part.text
        case "raw":
            kept.raw = part.raw
        case "url":
            kept.url = part.url
        case "data":
            kept.data = strict_json.dumps(from_value(part.data))
    return kept


# --- messages -------------------------------------------------------------------------------------


def to_message(message: content_pb2.Message, task_id: str, context_id: str) -> a2a_pb2.Message:
    """A message envelope of a task."""
    is_agent = message.role == content_pb2.ROLE_AGENT
    shown = a2a_pb2.Message(
        message_id=message.message_id,
        task_id=task_id,
        context_id=context_id,
        role=a2a_pb2.ROLE_AGENT if is_agent else a2a_pb2.ROLE_USER,
        parts=[to_part(part) for part in message.parts],
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )
    metadata = members(message.metadata)
    if is_agent:
        status = words.MESSAGE_STATUSES.get(message.status, "completed")
        if status != "completed":
            metadata["aiosMessageStatus"] = status
        if message.stop_reason and message.stop_reason != "end_turn":
            metadata["aiosStopReason"] = message.stop_reason
        if message.in_reply_to:
            metadata["aiosInReplyTo"] = message.in_reply_to
    set_metadata(shown, metadata)
    return shown


def from_message(message: a2a_pb2.Message) -> content_pb2.Message:
    """A user's message as the daemon keeps it; the task and its context are told beside it."""
    return content_pb2.Message(
        message_id=message.message_id,
        role=content_pb2.ROLE_USER,
        parts=[from_part(part) for part in message.parts],
        metadata=object_text(message.metadata),
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )


# --- artifacts ------------------------------------------------------------------------------------


def to_artifact(
    artifact: artifact_pb2.Artifact, parts: Iterable[content_pb2.Part] | None = None
) -> a2a_pb2.Artifact:
    """An artifact with its own parts, or with those of one chunk."""
    shown = a2a_pb2.Artifact(
        artifact_id=artifact.artifact_id,
        name=artifact.name,
        description=artifact.description,
        parts=[to_part(part) for part in (artifact.parts if parts is None else parts)],
    )
    metadata = members(artifact.metadata)
    if artifact.type:
        metadata[_ARTIFACT_TYPE] = artifact.type
    if artifact.mime_type:
        metadata[_ARTIFACT_MEDIA_TYPE] = artifact.mime_type
    if artifact.version > 1:
        metadata["aiosVersion"] = artifact.version
    if artifact.sha256:
        metadata["aiosSha256"] = artifact.sha256
    if parts is None and not artifact.sealed:
        metadata["aiosIncomplete"] = True
    set_metadata(shown, metadata)
    return shown


def from_artifact(artifact: a2a_pb2.Artifact) -> artifact_pb2.Artifact:
    """What the provider said of an artifact; what the daemon counted is left out."""
    metadata = from_struct(artifact.metadata)
    kind = metadata.pop(_ARTIFACT_TYPE, "")
    media_type = metadata.pop(_ARTIFACT_MEDIA_TYPE, "")
    for fact in _ARTIFACT_FACTS:
        metadata.pop(fact, None)
    return artifact_pb2.Artifact(
        artifact_id=artifact.artifact_id,
        name=artifact.name,
        description=artifact.description,
        type=str(kind),
        mime_type=str(media_type),
        metadata=strict_json.dumps(metadata) if metadata else "",
        parts=[from_part(part) for part in artifact.parts],
    )


def result_artifact(
    result: str, reply: content_pb2.Message | None, *, has_artifacts: bool
) -> a2a_pb2.Artifact | None:
    """The artifact that carries the final result of a completed task (R174, Z3).

    A result that is null says nothing; then the final reply is the result, unless the provider's
    own artifacts are. Text is written as text, anything else as data.
    """
    value = json.loads(result) if result else None
    if value is not None:
        part = a2a_pb2.Part()
        if isinstance(value, str):
            part.text = value
        else:
            part.data.CopyFrom(to_value(value))
        parts = [part]
    elif reply is not None and not has_artifacts:
        parts = [to_part(part) for part in reply.parts]
    else:
        parts = []
    if not parts:
        return None
    return a2a_pb2.Artifact(artifact_id=words.RESULT_ARTIFACT, name="result", parts=parts)


# --- status ---------------------------------------------------------------------------------------


def status(
    state: int, time: Timestamp, message: a2a_pb2.Message | None = None
) -> a2a_pb2.TaskStatus:
    """A status; its time is the moment of its event, in milliseconds."""
    return a2a_pb2.TaskStatus(state=words.state(state), timestamp=time, message=message)


def spoken(task: task_pb2.Task, sequence: int, text: str) -> a2a_pb2.Message:
    """A message that the task itself speaks, named after the event that it belongs to."""
    return a2a_pb2.Message(
        message_id=f"{task.task_id}-{sequence}",
        task_id=task.task_id,
        context_id=task.context_id,
        role=a2a_pb2.ROLE_AGENT,
        parts=[a2a_pb2.Part(text=text)],
    )


def failure_metadata(failure: failure_pb2.Failure) -> dict[str, Any]:
    """What a failure says beyond its message."""
    return {
        "aiosFailureClass": words.failure_class(failure.failure_class),
        "aiosReason": failure.reason,
        "aiosErrorCode": failure.code,
        **({"aiosErrorData": members(failure.data)} if failure.data else {}),
    }


def end_metadata(outcome: int, advice: int) -> dict[str, Any]:
    """What is known of the effects of a task that ended, and what its caller may do."""
    metadata: dict[str, Any] = {}
    if outcome in words.OUTCOMES:
        metadata["aiosOutcomeCertainty"] = words.OUTCOMES[outcome]
    if advice in words.ADVICE:
        metadata["aiosRetryPolicy"] = words.ADVICE[advice]
    return metadata


def progress_metadata(progress: task_pb2.Progress) -> dict[str, Any]:
    """How far a task is."""
    shown: dict[str, Any] = {"percent": progress.percent}
    if progress.message:
        shown["message"] = progress.message
    if progress.HasField("current_step"):
        shown["currentStep"] = progress.current_step
    if progress.HasField("total_steps"):
        shown["totalSteps"] = progress.total_steps
    return {"aiosProgress": shown}


def task_metadata(task: task_pb2.Task) -> dict[str, Any]:
    """The creator's metadata and what we add."""
    metadata = members(task.metadata)
    metadata["aiosCapabilityId"] = task.capability_id
    if task.state == task_pb2.TASK_STATE_PAUSED:
        metadata["aiosPaused"] = True
    if task.resume_pending:
        metadata["aiosResumePending"] = True
    if task.HasField("progress"):
        metadata |= progress_metadata(task.progress)
    if task.state in words.TERMINAL:
        metadata |= end_metadata(task.outcome, task.retry_advice)
    if task.HasField("failure"):
        metadata |= failure_metadata(task.failure)
    if task.result_reason:
        metadata["aiosReason"] = task.result_reason
    if task.HasField("resolution"):
        metadata["aiosResolution"] = {
            "outcome": task.resolution.outcome,
            "evidence": task.resolution.evidence,
            "by": task.resolution.by,
            "at": task.resolution.time.ToJsonString(),
        }
    if task.HasField("acceptance"):
        metadata["aiosAcceptance"] = {
            "accepted": task.acceptance.accepted,
            "reason": task.acceptance.reason,
            "by": task.acceptance.by,
        }
    if task.retried_from:
        metadata["aiosRetriedFrom"] = task.retried_from
    return metadata


def to_task(
    task: task_pb2.Task,
    current: a2a_pb2.TaskStatus,
    history: Sequence[a2a_pb2.Message] = (),
    artifacts: Sequence[a2a_pb2.Artifact] = (),
) -> a2a_pb2.Task:
    """A task with the status, the history and the artifacts that go with it."""
    shown = a2a_pb2.Task(
        id=task.task_id,
        context_id=task.context_id,
        status=current,
        history=history,
        artifacts=artifacts,
    )
    set_metadata(shown, task_metadata(task))
    return shown


def set_metadata(
    target: a2a_pb2.Part | a2a_pb2.Message | a2a_pb2.Artifact | a2a_pb2.Task,
    metadata: Mapping[str, Any],
) -> None:
    """Leave the field unset rather than empty."""
    if metadata:
        target.metadata.CopyFrom(to_struct(metadata))
