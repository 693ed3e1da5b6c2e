"""Tasks, messages, parts and artifacts between the daemon's contract and A2A 1.0 (R088, X43).

The one place of the gateway that knows both shapes. How things are written is `aiosd.a2a_wire`,
which the daemon's push notifications share; here they become messages of the A2A SDK, and come
back. What A2A has no field for is in metadata under keys that begin with `aios`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict

from aiosd.a2a_wire import fragments
from aiosd.api.v1 import artifact_pb2, content_pb2, task_pb2
from gateway import strict_json
from gateway.a2a import words
from gateway.a2a.json_values import from_struct, from_value, object_text, to_struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from google.protobuf.timestamp_pb2 import Timestamp

    from aiosd.api.v1 import interruption_pb2

_ARTIFACT_TYPE: Final = "aiosType"
_ARTIFACT_MEDIA_TYPE: Final = "aiosMimeType"
_ARTIFACT_FACTS: Final = ("aiosVersion", "aiosSha256", "aiosIncomplete")


# --- content --------------------------------------------------------------------------------------


def to_part(part: content_pb2.Part) -> a2a_pb2.Part:
    """A part as A2A writes it."""
    return ParseDict(fragments.part(part), a2a_pb2.Part())


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


def to_message(message: content_pb2.Message, task_id: str, context_id: str) -> a2a_pb2.Message:
    """A message envelope of a task."""
    return ParseDict(fragments.message(message, task_id, context_id), a2a_pb2.Message())


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


def to_artifact(
    artifact: artifact_pb2.Artifact, chunk: Iterable[content_pb2.Part] | None = None
) -> a2a_pb2.Artifact:
    """An artifact with its own parts, or with those of one chunk."""
    return ParseDict(fragments.artifact(artifact, chunk), a2a_pb2.Artifact())


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
    """The artifact that carries the final result of a completed task; None if others do."""
    shown = fragments.result_artifact(result, reply, has_artifacts=has_artifacts)
    return None if shown is None else ParseDict(shown, a2a_pb2.Artifact())


# --- tasks ----------------------------------------------------------------------------------------


def status(
    state: int, time: Timestamp, message: a2a_pb2.Message | None = None
) -> a2a_pb2.TaskStatus:
    """A status; its time is the moment of its event, in milliseconds."""
    return a2a_pb2.TaskStatus(state=words.state(state), timestamp=time, message=message)


def spoken(task: task_pb2.Task, sequence: int, text: str) -> a2a_pb2.Message:
    """A message that the task itself speaks, named after the event that it belongs to."""
    shown = fragments.spoken(task.task_id, task.context_id, sequence, text)
    return ParseDict(shown, a2a_pb2.Message())


def prompt(
    task: task_pb2.Task, sequence: int, wait: interruption_pb2.Interruption
) -> a2a_pb2.Message:
    """What an interrupted task asks for, as the message of its status (R183)."""
    shown = fragments.prompt(task.task_id, task.context_id, sequence, wait)
    return ParseDict(shown, a2a_pb2.Message())


def task_metadata(task: task_pb2.Task) -> dict[str, Any]:
    """The creator's metadata and what we add."""
    metadata = fragments.members(task.metadata)
    metadata["aiosCapabilityId"] = task.capability_id
    if task.state == task_pb2.TASK_STATE_PAUSED:
        metadata["aiosPaused"] = True
    if task.resume_pending:
        metadata["aiosResumePending"] = True
    if task.HasField("progress"):
        metadata |= fragments.progress(task.progress)
    if task.state in words.TERMINAL:
        metadata |= fragments.end(task.outcome, task.retry_advice)
    if task.HasField("failure"):
        metadata |= fragments.failure(task.failure)
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
    return a2a_pb2.Task(
        id=task.task_id,
        context_id=task.context_id,
        status=current,
        history=history,
        artifacts=artifacts,
        metadata=to_struct(task_metadata(task)),
    )
