"""Parts, messages, artifacts, progress and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiosd.adapters.rpc.codec.scalars import member, timestamp
from aiosd.api.v1 import artifact_pb2, content_pb2, event_pb2, failure_pb2, task_pb2
from aiosd.application import json_text
from aiosd.domain.content import (
    STOP_REASONS,
    LogLevel,
    LogLine,
    Message,
    MessageStatus,
    Part,
    PartKind,
    Progress,
    Role,
)
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.failure import RETRYABLE_CODES, Failure, FailureClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aiosd.domain.artifact import Artifact

LONGEST_LOG_LINE = 16_384
LARGEST_MESSAGE = 2 * 1024 * 1024


def to_part(part: Part) -> content_pb2.Part:
    """Exactly one content member, the empty ones included."""
    message = content_pb2.Part(
        metadata=part.metadata, filename=part.filename, media_type=part.media_type
    )
    match part.kind:
        case PartKind.TEXT:
            message.text = part.content
        case PartKind.RAW:
            message.raw = part.raw
        case PartKind.URL:
            message.url = part.content
        case PartKind.DATA:
            message.data = part.content
    return message


def from_part(message: content_pb2.Part, field: str) -> Part:
    """Raises ArgumentInvalid when no content member is present or its value is unusable."""
    name = message.WhichOneof("content")
    if name is None:
        raise ArgumentInvalid(field, "must have exactly one of text, raw, url, data")
    content, raw = "", b""
    if name == "raw":
        raw = message.raw
    else:
        content = getattr(message, name)
        json_text.check_text(content, f"{field}.{name}")
        if name == "data":
            json_text.parse(content, f"{field}.data")
    if message.metadata:
        json_text.parse_object(message.metadata, f"{field}.metadata")
    for text in (message.filename, message.media_type):
        json_text.check_text(text, field)
    return Part(
        PartKind[name.upper()], content, raw, message.metadata, message.filename, message.media_type
    )


def from_parts(messages: Iterable[content_pb2.Part], field: str) -> tuple[Part, ...]:
    """Parts in order; a refusal names the index."""
    return tuple(from_part(one, f"{field}[{index}]") for index, one in enumerate(messages))


def to_message(message: Message) -> content_pb2.Message:
    """A message envelope."""
    return content_pb2.Message(
        message_id=message.message_id,
        role=cast("content_pb2.Role.ValueType", int(message.role)),
        parts=[to_part(one) for one in message.parts],
        status=cast("content_pb2.MessageStatus.ValueType", int(message.status)),
        stop_reason=message.stop_reason,
        in_reply_to=message.in_reply_to,
        metadata=message.metadata,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
        create_time=timestamp(message.create_time),
        update_time=timestamp(message.update_time),
    )


def from_message(message: content_pb2.Message, field: str, now: int, role: Role) -> Message:
    """An envelope as its author sent it; `role` is what the author must be."""
    if not 1 <= len(message.message_id) <= 128:
        raise ArgumentInvalid(f"{field}.message_id", "must have 1..128 characters")
    json_text.check_text(message.message_id, f"{field}.message_id")
    if message.role and message.role != int(role):
        raise ArgumentInvalid(f"{field}.role", f"must be {role.name}")
    status = MessageStatus.COMPLETED
    if message.status and role is Role.AGENT:
        status = member(MessageStatus, message.status, f"{field}.status")
    if message.stop_reason and message.stop_reason not in STOP_REASONS:
        raise ArgumentInvalid(f"{field}.stop_reason", "is not a known stop reason")
    parts = from_parts(message.parts, f"{field}.parts")
    if sum(part.size for part in parts) > LARGEST_MESSAGE:
        # With arguments and metadata beside it, it must fit into one offer.
        raise ArgumentInvalid(f"{field}.parts", f"must not exceed {LARGEST_MESSAGE} bytes in all")
    if not parts and status is not MessageStatus.STREAMING and role is Role.USER:
        raise ArgumentInvalid(f"{field}.parts", "must not be empty")
    if message.metadata:
        json_text.parse_object(message.metadata, f"{field}.metadata")
    return Message(
        message_id=message.message_id,
        role=role,
        parts=parts,
        status=status,
        stop_reason=message.stop_reason,
        in_reply_to=message.in_reply_to,
        metadata=message.metadata,
        extensions=tuple(message.extensions),
        reference_task_ids=tuple(message.reference_task_ids),
        create_time=now,
        update_time=now,
    )


def to_artifact(
    artifact: Artifact, task_id: str, parts: Sequence[Part] = ()
) -> artifact_pb2.Artifact:
    """An artifact; without parts it is a summary."""
    return artifact_pb2.Artifact(
        artifact_id=artifact.artifact_id,
        task_id=task_id,
        name=artifact.name,
        type=artifact.type,
        mime_type=artifact.mime_type,
        description=artifact.description,
        metadata=artifact.metadata,
        version=artifact.version,
        chunk_count=artifact.chunk_count,
        part_count=artifact.part_count,
        size_bytes=artifact.size_bytes,
        sealed=artifact.sealed,
        sha256=artifact.sha256,
        create_time=timestamp(artifact.create_time),
        update_time=timestamp(artifact.update_time),
        parts=[to_part(one) for one in parts],
    )


def to_progress(progress: Progress) -> task_pb2.Progress:
    """Progress; steps stay unset when they are not counted."""
    return task_pb2.Progress(
        percent=progress.percent,
        message=progress.message,
        current_step=progress.current_step,
        total_steps=progress.total_steps,
    )


def from_progress(message: task_pb2.Progress) -> Progress:
    """Raises ArgumentInvalid out of bounds."""
    json_text.check_text(message.message, "progress.message")
    return Progress(
        message.percent,
        message.message,
        message.current_step if message.HasField("current_step") else None,
        message.total_steps if message.HasField("total_steps") else None,
    )


def to_failure(failure: Failure) -> failure_pb2.Failure:
    """A failure."""
    return failure_pb2.Failure(
        code=failure.code,
        message=failure.message,
        data=failure.data,
        reason=failure.reason,
        failure_class=cast("failure_pb2.FailureClass.ValueType", int(failure.failure_class)),
        retryable=failure.retryable,
    )


def from_failure(message: failure_pb2.Failure) -> Failure:
    """A provider's failure; an unset code is an internal one."""
    json_text.check_text(message.message, "failed.message")
    if message.data:
        json_text.parse_object(message.data, "failed.data")
    code = message.code or -32603
    failure_class = FailureClass.TASK_FAILED
    if message.failure_class:
        failure_class = member(FailureClass, message.failure_class, "failed.failure_class")
    return Failure(
        code=code,
        message=message.message[:4096] or "Task failed",
        reason=message.reason or "error",
        failure_class=failure_class,
        data=message.data,
        retryable=message.retryable or code in RETRYABLE_CODES,
    )


def to_log(line: LogLine) -> event_pb2.Logged:
    """A log line."""
    return event_pb2.Logged(
        level=cast("event_pb2.LogLevel.ValueType", int(line.level)), message=line.message
    )


def from_log(message: event_pb2.Logged) -> LogLine:
    """Over-long lines are cut, so that a chatty program cannot fail its task."""
    json_text.check_text(message.message, "log.message")
    level = member(LogLevel, message.level or LogLevel.INFO, "log.level")
    text = message.message
    if len(text) > LONGEST_LOG_LINE:
        text = text[:LONGEST_LOG_LINE] + "…"
    return LogLine(level, text)
