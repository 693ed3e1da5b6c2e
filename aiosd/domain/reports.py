"""What a provider may say about its attempt, and what it does to the task (design.md 7).

Every report names task, attempt and session; `check_holder` is the fence that all of them pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.domain import lifecycle
from aiosd.domain.artifact import StoredChunk, accept_chunk
from aiosd.domain.content import Message, MessageStatus, Role
from aiosd.domain.errors import ReportRefused
from aiosd.domain.event import ArtifactChanged, MessageChanged
from aiosd.domain.failure import Failure, FailureClass
from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from aiosd.domain.artifact import Chunk
    from aiosd.domain.content import LogLine, Progress
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

MAX_CHECKPOINT = 64 * 1024


def check_holder(task: Task, attempt: int, holder: str) -> None:
    """The fence: only the session that owns the current attempt may speak (I15)."""
    current = task.attempt
    if task.terminal:
        raise ReportRefused("TASK_TERMINAL", f"the task is {task.state.word}")
    if current.number != attempt or current.holder != holder or not holder:
        raise ReportRefused(
            "ATTEMPT_FENCED", f"attempt {attempt} of this session is not the current one"
        )


def progress(draft: Draft, report: Progress) -> None:
    """How far it is; a reader sees it only while something runs."""
    draft.update(progress=report)
    draft.emit(report)


def log(draft: Draft, line: LogLine) -> None:
    """A log line."""
    draft.emit(line)


def chunk(draft: Draft, sent: Chunk, room: int | None = None) -> None:
    """A chunk of an artifact; an exact repetition changes nothing (Z33).

    `room` is by how many bytes the draft may grow in all, None for any number.
    """
    before = draft.artifacts.get(sent.artifact_id)
    after = accept_chunk(before, sent, draft.now)
    if after is None:
        return
    growth = after.size_bytes - (before.size_bytes if before is not None else 0)
    if room is not None and growth > 0 and draft.artifact_bytes + growth > room:
        raise ReportRefused(
            "ARTIFACT_QUOTA",
            f"artifact {sent.artifact_id}: no room for {growth} bytes more of this principal",
        )
    draft.artifact_bytes += growth
    position = after.chunk_count - 1
    known = before is not None
    still_open = tuple(one for one in draft.task.open_artifacts if one != sent.artifact_id)
    draft.update(
        artifact_count=draft.task.artifact_count + (0 if known else 1),
        open_artifacts=still_open if after.sealed else (*still_open, sent.artifact_id),
    )
    draft.artifacts[sent.artifact_id] = after
    draft.changed_artifacts[sent.artifact_id] = after
    draft.chunks.append(StoredChunk(sent.artifact_id, after.version, position, sent.parts))
    draft.emit(ArtifactChanged(after.summary, position, sent.append, sent.last))


def message(draft: Draft, sent: Message) -> None:
    """A message envelope, new or continued (R159); only the daemon may say agent_lost."""
    if sent.role is not Role.AGENT:
        raise ReportRefused("REPORT_INVALID", "message.role: a provider writes as agent")
    if sent.stop_reason == "agent_lost":
        raise ReportRefused("REPORT_INVALID", "message.stop_reason: agent_lost is the daemon's")
    known = draft.messages.get(sent.message_id)
    stamped = replace(sent, create_time=draft.now, update_time=draft.now)
    stored = stamped if known is None else known.followed_by(stamped)
    draft.messages[stored.message_id] = stored
    draft.changed_messages[stored.message_id] = stored
    streams = (stored.message_id,) if stored.status is MessageStatus.STREAMING else ()
    others = tuple(one for one in draft.task.open_messages if one != stored.message_id)
    if (*others, *streams) != draft.task.open_messages:
        draft.update(open_messages=(*others, *streams))
    draft.emit(MessageChanged(stored))


def save(draft: Draft, state: str) -> None:
    """A point that a later attempt may go on from (R185)."""
    if len(state.encode()) > MAX_CHECKPOINT:
        raise ReportRefused("REPORT_INVALID", f"checkpoint: more than {MAX_CHECKPOINT} bytes")
    draft.update(attempt=replace(draft.task.attempt, checkpoint=state))


def complete_by_message(draft: Draft) -> None:
    """The last agent reply to the task's request decides the outcome (Y15, R161)."""
    asked = draft.task.request.message
    answers = {"", asked.message_id} if asked is not None else {""}
    replies = [
        one
        for one in draft.messages.values()
        if one.role is Role.AGENT and one.in_reply_to in answers
    ]
    last = replies[-1] if replies else None
    stop = last.stop_reason if last is not None else ""
    if last is None or last.status is MessageStatus.STREAMING or stop == "tool_use":
        # The provider said that it has ended, so nothing more is to be waited for.
        why = "No final agent reply"
        lifecycle.fail(draft, Failure(-32603, why, "error", FailureClass.PROTOCOL_ERROR))
    elif last.status is MessageStatus.COMPLETED:
        lifecycle.complete(draft, "null", why="max_tokens" if stop == "max_tokens" else "")
    elif last.status is MessageStatus.REFUSED:
        lifecycle.reject(draft, stop or "refused")
    elif stop == "timeout":
        late = Failure(-32005, "Timeout", "timeout", data='{"reason":"agent_timeout"}')
        lifecycle.fail(draft, late)
    elif last.status is MessageStatus.CANCELLED:
        # The provider vouches that it stopped, so nobody holds the attempt when it ends.
        draft.update(attempt=replace(draft.task.attempt, holder=""))
        lifecycle.cancel(draft, stop or "user_stop")
    else:
        lifecycle.fail(draft, Failure(-32603, "Agent reply failed", stop or "error"))


def acknowledge(draft: Draft, number: int) -> None:
    """Remember the highest report number, so that a repetition is a no-op."""
    if draft.task.attempt.reports < number and not draft.task.terminal:
        draft.update(attempt=replace(draft.task.attempt, reports=number))


def may_report(task: Task, kind: str) -> None:
    """Reports other than facts need WORKING; facts are taken in any open state."""
    if task.state is not TaskState.WORKING:
        raise ReportRefused("TASK_STATE_INVALID", f"{kind} while the task is {task.state.word}")
