"""Tasks and what they own, made by the rules or out of thin air."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiosd.application.writes import AppendEvents, IdempotencyKey, PutTask
from aiosd.domain import lifecycle
from aiosd.domain.artifact import Artifact, StoredChunk
from aiosd.domain.content import Part, PartKind
from aiosd.domain.event import Event, StatusChanged
from aiosd.domain.state import TERMINAL, TaskState
from aiosd.domain.task import Options, Priority, StateChange, Task, TaskRequest

NOW = 1_764_547_200_000


def a_task(
    number: int = 1,
    *,
    state: TaskState = TaskState.SUBMITTED,
    principal: str = "owner",
    capability: str = "test.echo",
    priority: Priority = Priority.NORMAL,
    deadline_ms: int = 0,
    at: int | None = None,
    **members: Any,
) -> Task:
    """A task in a state; a higher number has a later id and, without `at`, a later time."""
    create_time = NOW + number if at is None else at
    request = TaskRequest(
        capability, capability, options=Options(priority=priority, deadline_ms=deadline_ms)
    )
    task = Task(
        id=f"task-{number:032x}",
        context_id=f"ctx-{number:032x}",
        principal=principal,
        request=request,
        state=state,
        state_time=create_time,
        create_time=create_time,
        update_time=create_time,
        end_time=create_time if state in TERMINAL else 0,
        revision=1,
    )
    return replace(task, **members)


def put(task: Task) -> PutTask:
    """Insert it."""
    return PutTask(task, 0)


def update(task: Task, **members: Any) -> PutTask:
    """Its next revision."""
    return PutTask(replace(task, revision=task.revision + 1, **members), task.revision)


def status_events(task_id: str, *sequences: int) -> AppendEvents:
    """Events with these numbers, each with its state change."""
    events = tuple(
        Event(
            task_id, one, NOW + one, StatusChanged(TaskState.WORKING, TaskState.PAUSED, f"r{one}")
        )
        for one in sequences
    )
    history = tuple(
        StateChange(TaskState.WORKING, NOW + one, f"r{one}", sequence=one) for one in sequences
    )
    return AppendEvents(task_id, events, history)


def submitted(number: int = 1) -> tuple[Task, tuple[PutTask, AppendEvents]]:
    """A task as the domain makes it, and the writes that create it."""
    draft = lifecycle.submit(
        task_id=f"task-{number:032x}",
        context_id="ctx-1",
        principal="owner",
        request=TaskRequest("test.echo", "test", '{"text":"hello"}'),
        now=NOW,
    )
    events = AppendEvents(draft.task.id, tuple(draft.events), tuple(draft.history))
    return draft.task, (put(draft.task), events)


def a_key(
    key: str = "k", *, principal: str = "owner", at: int = NOW, **members: Any
) -> IdempotencyKey:
    """An idempotency key."""
    return replace(IdempotencyKey(principal, "CreateTask", key, "print", "task-1", at), **members)


def an_artifact(
    artifact_id: str = "art-1", *, chunks: int = 1, version: int = 1, at: int = NOW
) -> Artifact:
    """An artifact of so many chunks."""
    return Artifact(
        artifact_id,
        name="report",
        version=version,
        digests=tuple(f"{version}-{n}" for n in range(chunks)),
        create_time=at,
        update_time=at,
    )


def a_chunk(
    position: int = 0, *, version: int = 1, artifact_id: str = "art-1", text: str = ""
) -> StoredChunk:
    """A chunk of one text part and one raw part."""
    parts = (
        Part(PartKind.TEXT, text or f"{version}.{position}"),
        Part(PartKind.RAW, raw=bytes([version, position, 0, 255]), filename="x.bin"),
    )
    return StoredChunk(artifact_id, version, position, parts)
