"""Events. Each is encoded once, however many follow it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from aiosd.adapters.rpc.codec.content import (
    to_artifact,
    to_failure,
    to_log,
    to_message,
    to_part,
    to_progress,
)
from aiosd.adapters.rpc.codec.interruptions import to_interruption
from aiosd.adapters.rpc.codec.scalars import member, timestamp
from aiosd.adapters.rpc.codec.tasks import to_resolution
from aiosd.api.v1 import event_pb2, task_pb2
from aiosd.domain import event as events
from aiosd.domain.content import LogLine, Progress
from aiosd.domain.event import EventFamily

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.domain.failure import Outcome, RetryAdvice


@lru_cache(maxsize=4096)
def to_event(event: events.Event) -> event_pb2.Event:
    """One fact. The message is shared between readers: it is never changed."""
    message = event_pb2.Event(
        task_id=event.task_id, sequence=event.sequence, time=timestamp(event.time)
    )
    payload = event.payload
    match payload:
        case events.StatusChanged():
            message.status_changed.CopyFrom(
                event_pb2.StatusChanged(
                    state=cast("task_pb2.TaskState.ValueType", int(payload.state)),
                    previous_state=cast("task_pb2.TaskState.ValueType", int(payload.previous or 0)),
                    reason=payload.reason,
                    outcome=_outcome(payload.outcome),
                    retry_advice=_advice(payload.advice),
                )
            )
        case Progress():
            message.progressed.CopyFrom(to_progress(payload))
        case LogLine():
            message.logged.CopyFrom(to_log(payload))
        case events.ArtifactChanged():
            message.artifact_changed.CopyFrom(_artifact_changed(payload, event.task_id))
        case events.InputRequired():
            message.input_required.CopyFrom(to_interruption(payload.interruption))
        case events.AuthRequired():
            message.auth_required.CopyFrom(to_interruption(payload.interruption))
        case events.ResultStored():
            message.result_stored.CopyFrom(
                event_pb2.ResultStored(
                    result=payload.result,
                    artifacts=[to_artifact(one, event.task_id) for one in payload.artifacts],
                )
            )
        case events.TaskFailed():
            message.failed.CopyFrom(
                event_pb2.Failed(
                    failure=to_failure(payload.failure),
                    outcome=_outcome(payload.outcome),
                    retry_advice=_advice(payload.advice),
                )
            )
        case events.MessageChanged():
            message.message_changed.CopyFrom(to_message(payload.message))
        case events.AttemptChanged():
            message.attempt_changed.CopyFrom(
                event_pb2.AttemptChanged(
                    attempt=payload.attempt, change=payload.change, reason=payload.reason
                )
            )
        case events.Resolved():
            message.resolved.CopyFrom(to_resolution(payload))
    return message


def _artifact_changed(payload: events.ArtifactChanged, task_id: str) -> event_pb2.ArtifactChanged:
    return event_pb2.ArtifactChanged(
        artifact=to_artifact(payload.artifact, task_id),
        position=payload.position,
        append=payload.append,
        last_chunk=payload.last,
        parts=[to_part(one) for one in payload.parts],
    )


def _outcome(outcome: Outcome | None) -> task_pb2.Outcome.ValueType:
    return cast("task_pb2.Outcome.ValueType", int(outcome or 0))


def _advice(advice: RetryAdvice | None) -> task_pb2.RetryAdvice.ValueType:
    return cast("task_pb2.RetryAdvice.ValueType", int(advice or 0))


def from_families(numbers: Iterable[int]) -> tuple[EventFamily, ...]:
    """Families wanted; raises ArgumentInvalid."""
    return tuple(dict.fromkeys(member(EventFamily, one, "families") for one in numbers))


def to_families(families: Iterable[EventFamily]) -> list[event_pb2.EventFamily.ValueType]:
    """Families as numbers."""
    return [cast("event_pb2.EventFamily.ValueType", int(one)) for one in families]
