"""A change to one task in the making: what commands work on and what a commit takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aiosd.domain.artifact import Artifact, StoredChunk
from aiosd.domain.content import Message, MessageStatus
from aiosd.domain.errors import TaskStateInvalid
from aiosd.domain.event import ArtifactChanged, Event, MessageChanged, StatusChanged
from aiosd.domain.state import TERMINAL, TRANSITIONS, TaskState
from aiosd.domain.task import Phase, StateChange, Task

if TYPE_CHECKING:
    from aiosd.domain.event import Payload


#: What becomes of a reply that still streams when its task ends; a failure goes by its reason.
_ENDINGS: dict[TaskState, tuple[MessageStatus, str]] = {
    TaskState.COMPLETED: (MessageStatus.COMPLETED, ""),
    TaskState.CANCELED: (MessageStatus.CANCELLED, "user_stop"),
    TaskState.REJECTED: (MessageStatus.REFUSED, "refused"),
}
_FAILURES: dict[str, tuple[MessageStatus, str]] = {
    "agent_lost": (MessageStatus.FAILED, "agent_lost"),
    "timeout": (MessageStatus.CANCELLED, "timeout"),
}
_FAILED = (MessageStatus.FAILED, "error")


@dataclass(slots=True)
class Draft:
    """Commands check first and change after, so a refused command leaves the draft as it was.

    Several commands may be applied to one draft; they become one revision and one commit.
    `artifacts` and `messages` hold what the task already has as far as the commands need it.
    """

    task: Task
    now: int
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    history: list[StateChange] = field(default_factory=list)
    changed_artifacts: dict[str, Artifact] = field(default_factory=dict)
    chunks: list[StoredChunk] = field(default_factory=list)
    changed_messages: dict[str, Message] = field(default_factory=dict)
    #: By how much the artifacts have grown; replaced ones are taken off.
    artifact_bytes: int = 0
    #: How many webhooks the task has from now on; None: as many as before.
    webhook_count: int | None = None
    #: The state the task was in when the draft began; None for a new one.
    began_in: TaskState | None = None
    revised: bool = False
    #: The provider session whose word this is; empty for anybody else's.
    reporter: str = ""

    def update(self, **members: Any) -> None:
        """Replace members of the task; the first change of a draft makes a new revision."""
        if not self.revised:
            self.revised = True
            members["revision"] = self.task.revision + 1
        self.task = replace(self.task, update_time=self.now, **members)

    def emit(self, payload: Payload) -> Event:
        """Append a fact to the log."""
        event = Event(self.task.id, self.task.event_head + 1, self.now, payload)
        self.events.append(event)
        self.update(event_head=event.sequence)
        return event

    def close_messages(self, status: MessageStatus, stop_reason: str) -> None:
        """End the replies that still stream: nobody writes them any more."""
        for message_id in self.task.open_messages:
            known = self.messages.get(message_id)
            if known is not None and known.status is MessageStatus.STREAMING:
                ended = replace(known, status=status, stop_reason=stop_reason, update_time=self.now)
                self.messages[message_id] = self.changed_messages[message_id] = ended
                self.emit(MessageChanged(ended))
        if self.task.open_messages:
            self.update(open_messages=())

    def with_parts(self, event: Event) -> Event:
        """The event with the content of the chunk that it tells of, if it is of this draft."""
        payload = event.payload
        if not isinstance(payload, ArtifactChanged):
            return event
        place = (payload.artifact.artifact_id, payload.artifact.version, payload.position)
        for chunk in self.chunks:
            if (chunk.artifact_id, chunk.version, chunk.position) == place:
                return replace(event, payload=replace(payload, parts=chunk.parts))
        return event

    def enter(
        self,
        state: TaskState,
        attempted: str,
        *,
        reason: str = "",
        metadata: str = "",
        phase: Phase = Phase.NONE,
        **members: Any,
    ) -> None:
        """Take an edge of the table: state, working time, history and its event together.

        `attempted` is the verb that a refusal names.
        """
        task = self.task
        if state not in TRANSITIONS[task.state]:
            raise TaskStateInvalid(task.state, attempted)
        if state in TERMINAL:
            self.close_messages(*_ENDINGS.get(state, _FAILURES.get(reason, _FAILED)))
        members["worked_ms"] = task.working_time(self.now)
        if state is TaskState.WORKING and not task.start_time:
            members["start_time"] = self.now
        if state in TERMINAL:
            members["end_time"] = self.now
        self.update(state=state, state_time=self.now, state_reason=reason, phase=phase, **members)
        after = self.task
        event = self.emit(StatusChanged(state, task.state, reason, after.outcome, after.advice))
        self.history.append(StateChange(state, self.now, reason, metadata, event.sequence))
