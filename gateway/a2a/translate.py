"""The daemon's events as updates of this wire.

One translator follows one stream. Some events of the daemon come in pairs (a state, and what goes
with it): they become one update, told when the second has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from a2a.types import a2a_pb2

from aiosd.a2a_wire import fragments
from aiosd.a2a_wire.words import WITH_COMPANION
from aiosd.api.v1 import content_pb2, event_pb2, task_pb2
from gateway.a2a import mapping, words
from gateway.a2a.json_values import to_struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.api.v1 import interruption_pb2
    from gateway.a2a.snapshot import Seen

Update: TypeAlias = a2a_pb2.TaskStatusUpdateEvent | a2a_pb2.TaskArtifactUpdateEvent

FAMILIES: Final = (
    event_pb2.EVENT_FAMILY_STATUS,
    event_pb2.EVENT_FAMILY_PROGRESS,
    event_pb2.EVENT_FAMILY_ARTIFACT,
    event_pb2.EVENT_FAMILY_MESSAGE,
)
"""The events that this wire has a place for."""


class Translator:
    """Knows the task, the state it is in, and what a snapshot has shown already.

    `after` is the event that the reader has read last. `last_reply` reads the newest final
    message of the agent when this stream has not seen it.
    """

    def __init__(
        self,
        task: task_pb2.Task,
        seen: Seen,
        last_reply: Callable[[], Awaitable[content_pb2.Message | None]],
        *,
        after: int = 0,
        with_sequence: bool = False,
    ) -> None:
        self._task = task
        self._state: int = task.state
        self._seen = seen
        self._after = after
        self._last_reply = last_reply
        self._reply: content_pb2.Message | None = None
        self._with_sequence = with_sequence
        self._held: event_pb2.Event | None = None
        self._has_artifacts = bool(seen.chunks) or bool(task.artifacts)

    @property
    def state(self) -> int:
        """The daemon's state after the newest update."""
        return self._state

    async def translate(self, event: event_pb2.Event) -> list[Update]:
        """The updates that an event makes, often one, sometimes none."""
        match event.WhichOneof("payload"):
            case "status_changed":
                return self._status_changed(event)
            case "input_required":
                return [self._interrupted(event, event.input_required)]
            case "auth_required":
                return [self._interrupted(event, event.auth_required)]
            case "failed":
                return [self._failed(event)]
            case "result_stored":
                return await self._completed(event)
            case "progressed":
                return [self._status(event, metadata=fragments.progress(event.progressed))]
            case "message_changed":
                return self._message(event)
            case "artifact_changed":
                return self._chunk(event)
            case _:
                return []

    def _status_changed(self, event: event_pb2.Event) -> list[Update]:
        changed = event.status_changed
        if changed.state in WITH_COMPANION:
            self._held = event
            return []
        self._held = None
        self._state = changed.state
        metadata = fragments.end(changed.outcome, changed.retry_advice)
        message = None
        if changed.state == task_pb2.TASK_STATE_PAUSED:
            metadata["aiosPaused"] = True
        if changed.state == task_pb2.TASK_STATE_CANCELED and changed.reason:
            message = mapping.spoken(self._task, event.sequence, changed.reason)
        return [self._status(event, message, metadata)]

    def _interrupted(self, event: event_pb2.Event, wait: interruption_pb2.Interruption) -> Update:
        is_input = event.WhichOneof("payload") == "input_required"
        self._state = (
            task_pb2.TASK_STATE_INPUT_REQUIRED if is_input else task_pb2.TASK_STATE_AUTH_REQUIRED
        )
        message = mapping.prompt(self._task, self._pair(event), wait)
        return self._status(event, message)

    def _failed(self, event: event_pb2.Event) -> Update:
        failed = event.failed
        entered = self._held.status_changed.state if self._held else task_pb2.TASK_STATE_FAILED
        if failed.failure.reason == "rejected":
            entered = task_pb2.TASK_STATE_REJECTED
        self._state = entered
        message = mapping.spoken(self._task, self._pair(event), failed.failure.message)
        metadata = fragments.end(failed.outcome, failed.retry_advice)
        return self._status(event, message, metadata | fragments.failure(failed.failure))

    async def _completed(self, event: event_pb2.Event) -> list[Update]:
        stored = event.result_stored
        number = self._pair(event)
        self._state = task_pb2.TASK_STATE_COMPLETED
        has_artifacts = self._has_artifacts or bool(stored.artifacts)
        reply = self._reply
        if reply is None and not has_artifacts and stored.result in ("", "null"):
            reply = await self._last_reply()
        result = mapping.result_artifact(stored.result, reply, has_artifacts=has_artifacts)
        updates: list[Update] = []
        if result is not None and number > self._after:
            updates.append(
                a2a_pb2.TaskArtifactUpdateEvent(
                    task_id=self._task.task_id,
                    context_id=self._task.context_id,
                    artifact=result,
                    last_chunk=True,
                    metadata=self._stamp({}, number),
                )
            )
        metadata = fragments.end(task_pb2.OUTCOME_CERTAIN, task_pb2.RETRY_ADVICE_UNSPECIFIED)
        updates.append(self._status(event, metadata=metadata))
        return updates

    def _message(self, event: event_pb2.Event) -> list[Update]:
        message = event.message_changed
        if (
            message.role != content_pb2.ROLE_AGENT
            or message.status == content_pb2.MESSAGE_STATUS_STREAMING
        ):
            return []
        self._reply = message
        if message.message_id in self._seen.messages:
            return []
        shown = mapping.to_message(message, self._task.task_id, self._task.context_id)
        return [self._status(event, shown)]

    def _chunk(self, event: event_pb2.Event) -> list[Update]:
        changed = event.artifact_changed
        self._has_artifacts = True
        place = (changed.artifact.version, changed.position)
        if place < self._seen.chunks.get(changed.artifact.artifact_id, (0, 0)):
            return []
        if not changed.parts and not changed.last_chunk:
            # Replaced since: its content is gone, and the new version follows.
            return []
        return [
            a2a_pb2.TaskArtifactUpdateEvent(
                task_id=self._task.task_id,
                context_id=self._task.context_id,
                artifact=mapping.to_artifact(changed.artifact, changed.parts),
                append=changed.append,
                last_chunk=changed.last_chunk,
                metadata=self._stamp({"aiosPosition": changed.position}, event.sequence),
            )
        ]

    def _pair(self, event: event_pb2.Event) -> int:
        """The number of the state change that an event goes with; forget the change."""
        held, self._held = self._held, None
        return held.sequence if held is not None else event.sequence - 1

    def _status(
        self,
        event: event_pb2.Event,
        message: a2a_pb2.Message | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Update:
        return a2a_pb2.TaskStatusUpdateEvent(
            task_id=self._task.task_id,
            context_id=self._task.context_id,
            status=mapping.status(self._state, event.time, message),
            metadata=self._stamp(metadata or {}, event.sequence),
        )

    def _stamp(self, metadata: dict[str, Any], sequence: int) -> Any:
        if self._with_sequence:
            metadata = metadata | {words.SEQUENCE: sequence}
        return to_struct(metadata) if metadata else None
