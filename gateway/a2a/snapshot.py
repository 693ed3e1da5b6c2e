"""A whole task as A2A shows it: status, history in order, artifacts with their parts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from a2a.types import a2a_pb2

from aiosd.api.v1 import (
    artifact_pb2,
    artifact_service_pb2,
    content_pb2,
    task_pb2,
    task_service_pb2,
)
from gateway.a2a import mapping, words
from gateway.daemon_channel import DaemonError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.a2a.call import Call

PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """What a snapshot showed, so that a stream behind it shows nothing twice.

    `chunks` holds, by artifact id, the version and how many of its chunks were shown.
    """

    chunks: dict[str, tuple[int, int]] = field(default_factory=dict)
    messages: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A task as it is shown, and as the daemon has it."""

    shown: a2a_pb2.Task
    native: task_pb2.Task
    seen: Seen


async def fetch(call: Call, task_id: str, *, wait_ms: int = 0) -> task_pb2.Task:
    """The daemon's task with its state history, settled if that happens within `wait_ms`.

    Raises TaskNotFoundError, also for a task of another tenant.
    """
    request = task_service_pb2.GetTaskRequest(task_id=task_id, include_history=True)
    request.wait.FromMilliseconds(wait_ms)
    answer = await call.read(call.context.daemon.tasks.GetTask, request, wait_ms=wait_ms)
    call.check_owned(answer.task)
    return answer.task


async def load(
    call: Call,
    native: task_pb2.Task,
    *,
    history_length: int | None = None,
    with_artifacts: bool = True,
) -> Snapshot:
    """The task with what belongs to it. `native` comes from `fetch` or from a stream.

    `history_length` is at most how many of the newest messages are shown; None shows all.
    """
    wants_reply = with_artifacts and _is_result_a_reply(native)
    wants_messages = history_length != 0 or wants_reply
    said, artifacts = await asyncio.gather(
        messages(call, native.task_id) if wants_messages else _nothing(),
        _artifacts(call, native) if with_artifacts else _no_artifacts(),
    )
    shown_artifacts = [mapping.to_artifact(one) for one in artifacts]
    if with_artifacts and native.state == task_pb2.TASK_STATE_COMPLETED:
        result = mapping.result_artifact(
            native.result, last_reply(said), has_artifacts=bool(artifacts)
        )
        if result is not None:
            shown_artifacts.append(result)
    history = _history(native, said) if history_length != 0 else []
    if history_length is not None:
        history = history[len(history) - min(history_length, len(history)) :]
    shown = mapping.to_task(native, status(native), history, shown_artifacts)
    seen = Seen(
        {one.artifact_id: (one.version, one.chunk_count) for one in artifacts},
        frozenset(one.message_id for one in said if _is_final(one)),
    )
    return Snapshot(shown, native, seen)


def status(native: task_pb2.Task) -> a2a_pb2.TaskStatus:
    """The status of now, with what the task says in it."""
    sequence = native.state_history[-1].sequence if native.state_history else native.event_head
    message: a2a_pb2.Message | None = None
    if native.HasField("interruption") and native.state in words.INTERRUPTED:
        message = mapping.prompt(native, sequence, native.interruption)
    elif native.HasField("failure"):
        message = mapping.spoken(native, sequence, native.failure.message)
    elif native.state == task_pb2.TASK_STATE_CANCELED and native.state_reason:
        message = mapping.spoken(native, sequence, native.state_reason)
    return mapping.status(native.state, native.state_time, message)


async def messages(call: Call, task_id: str) -> list[content_pb2.Message]:
    """Every message envelope of a task, oldest first."""
    found: list[content_pb2.Message] = []
    token = ""
    while True:
        request = task_service_pb2.ListMessagesRequest(
            task_id=task_id, page_size=PAGE, page_token=token
        )
        page = await call.read(call.context.daemon.tasks.ListMessages, request)
        found += page.messages
        token = page.next_page_token
        if not token:
            return found


def last_reply(said: Sequence[content_pb2.Message]) -> content_pb2.Message | None:
    """The newest message of the agent that is whole; None without one."""
    for message in reversed(said):
        if message.role == content_pb2.ROLE_AGENT and _is_final(message):
            return message
    return None


def _is_final(message: content_pb2.Message) -> bool:
    return message.status != content_pb2.MESSAGE_STATUS_STREAMING


def _is_result_a_reply(native: task_pb2.Task) -> bool:
    is_done = native.state == task_pb2.TASK_STATE_COMPLETED
    return is_done and native.result in ("", "null") and not native.artifacts


def _history(native: task_pb2.Task, said: Sequence[content_pb2.Message]) -> list[a2a_pb2.Message]:
    """Messages of both sides and the questions that were asked between them.

    What the status says now is in the status alone.
    """
    asked = [
        change
        for change in native.state_history[:-1]
        if change.state in words.INTERRUPTED and change.reason
    ]
    history: list[a2a_pb2.Message] = []
    for position, message in enumerate(said):
        while asked and position and _is_before(asked[0], message):
            change = asked.pop(0)
            history.append(mapping.spoken(native, change.sequence, change.reason))
        history.append(mapping.to_message(message, native.task_id, native.context_id))
    history += [mapping.spoken(native, change.sequence, change.reason) for change in asked]
    return history


def _is_before(change: task_pb2.StateChange, message: content_pb2.Message) -> bool:
    asked, said = change.time.ToMilliseconds(), message.create_time.ToMilliseconds()
    # Within one millisecond: an agent speaks before it asks, a user answers after.
    return asked < said or (asked == said and message.role == content_pb2.ROLE_USER)


async def _artifacts(call: Call, native: task_pb2.Task) -> list[artifact_pb2.Artifact]:
    return list(
        await asyncio.gather(
            *(artifact(call, native.task_id, one.artifact_id) for one in native.artifacts)
        )
    )


async def artifact(call: Call, task_id: str, artifact_id: str) -> artifact_pb2.Artifact:
    """One artifact with its parts; what does not fit into one answer is streamed."""
    daemon = call.context.daemon
    request = artifact_service_pb2.GetArtifactRequest(artifact_id=artifact_id, task_id=task_id)
    try:
        answer = await daemon.call(
            daemon.artifacts.GetArtifact, request, call.request.caller, repeatable=True
        )
    except DaemonError as refused:
        if refused.reason != "ARTIFACT_TOO_LARGE":
            raise call.refuse(refused) from None
        return await _streamed(call, task_id, artifact_id)
    found = answer.artifact
    # A chunk that came while the answer was read is the stream's to tell.
    del found.parts[found.part_count :]
    return found


async def _streamed(call: Call, task_id: str, artifact_id: str) -> artifact_pb2.Artifact:
    daemon = call.context.daemon
    request = artifact_service_pb2.ReadArtifactRequest(artifact_id=artifact_id, task_id=task_id)
    found = artifact_pb2.Artifact()
    try:
        async for chunk in daemon.stream(
            daemon.artifacts.ReadArtifact, request, call.request.caller
        ):
            if chunk.HasField("artifact"):
                found.CopyFrom(chunk.artifact)
            found.parts.extend(chunk.parts)
    except DaemonError as refused:
        raise call.refuse(refused) from None
    del found.parts[found.part_count :]
    return found


async def _nothing() -> list[content_pb2.Message]:
    return []


async def _no_artifacts() -> list[artifact_pb2.Artifact]:
    return []
