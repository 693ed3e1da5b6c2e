"""The event streams of tasks and of operations, without a gap over restarts of the daemon.

Ids are the numbers of the daemon's log: strictly increasing, not contiguous, and a reader resumes
after the last one that it saw. A task's stream ends with exactly one `end`; an operation's after
its `runtime_rpc_response`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from aiosd.aios_wire import fragments, words
from aiosd.aios_wire.timestamps import to_text
from aiosd.api.v1 import event_pb2, operation_service_pb2, task_pb2, task_service_pb2
from gateway import projection, sse, strict_json
from gateway.daemon_channel import DaemonError
from gateway.event_stream import EventStream
from gateway.openapi import render
from gateway.openapi.errors import from_daemon

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from gateway.openapi.call import Call

ResponseT = TypeVar("ResponseT")
Json = dict[str, Any]

RECONNECT_SECONDS: Final = 60.0
"""How long a reader is kept while the daemon does not answer."""
_FIRST_DELAY_S: Final = 0.1
_LONGEST_DELAY_S: Final = 2.0
# Whether a failure is a timeout or a rejection only its companion says, which follows at once.
_TOLD_BY_COMPANION: Final = (task_pb2.TASK_STATE_FAILED, task_pb2.TASK_STATE_REJECTED)
_TASK_FAMILIES: Final = (
    event_pb2.EVENT_FAMILY_STATUS,
    event_pb2.EVENT_FAMILY_MESSAGE,
    event_pb2.EVENT_FAMILY_PROGRESS,
    event_pb2.EVENT_FAMILY_ARTIFACT,
)


async def task_events(call: Call) -> EventStream:
    """Follow a task from `since`, or from Last-Event-ID, to its end."""
    task_id, since = call.path_id("task_id"), call.after(query_name="since")

    def subscribe(
        after: int,
    ) -> AsyncGenerator[task_service_pb2.SubscribeToTaskResponse, None]:
        request = task_service_pb2.SubscribeToTaskRequest(
            task_id=task_id, after_sequence=after, families=_TASK_FAMILIES, include_task=True
        )
        return call.daemon.stream(call.daemon.tasks.SubscribeToTask, request, call.caller)

    frames = _TaskFrames(since)
    feed = Feed(
        subscribe, frames.of, since, ended=_end("task_terminal"), lost=_end("channel_closed")
    )
    await feed.open()
    return EventStream(feed.chunks(), call.context.stopping, stopping_words=_end("stream_closed"))


async def operation_events(call: Call) -> EventStream:
    """Follow an operation from its first event, or after Last-Event-ID (ahead: 409)."""
    operation_id, after = call.path_id("operation_id"), call.after()

    def subscribe(
        cursor: int,
    ) -> AsyncGenerator[operation_service_pb2.SubscribeToOperationResponse, None]:
        request = operation_service_pb2.SubscribeToOperationRequest(
            operation_id=operation_id, after_sequence=cursor
        )
        return call.daemon.stream(call.daemon.operations.SubscribeToOperation, request, call.caller)

    # The daemon refuses a cursor only once it reads the log; who asks is told before the stream.
    request = operation_service_pb2.GetOperationRequest(operation_id=operation_id)
    found = (await call.read(call.daemon.operations.GetOperation, request)).operation
    feed = Feed(subscribe, _operation_frames, after)
    if after > found.sequence:
        await feed.open()
    return EventStream(feed.chunks(), call.context.stopping)


class Feed(Generic[ResponseT]):
    """One reader: subscribes again after the last event written when the daemon went away.

    `frames` makes a response into frames and the cursor after it. `ended` and `lost` are the last
    words after the daemon ended the stream, and when it stays away.
    """

    def __init__(
        self,
        subscribe: Callable[[int], AsyncGenerator[ResponseT, None]],
        frames: Callable[[ResponseT], tuple[list[sse.Frame], int]],
        after: int,
        *,
        ended: bytes = b"",
        lost: bytes = b": the stream was interrupted, connect again\n\n",
    ) -> None:
        self._subscribe = subscribe
        self._frames = frames
        self._cursor = after
        self._ended = ended
        self._lost = lost
        self._responses: AsyncGenerator[ResponseT, None] | None = None
        self._first: ResponseT | None = None

    async def open(self) -> None:
        """Wait for the daemon's first response. Raises ApiError if it refuses the stream."""
        responses = self._subscribe(self._cursor)
        try:
            self._first = await anext(responses, None)
        except DaemonError as refused:
            await responses.aclose()
            raise from_daemon(refused) from None
        except BaseException:
            await responses.aclose()
            raise
        self._responses = responses

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Write what happens, as many events at once as were waiting."""
        lost_at: float | None = None
        delay = _FIRST_DELAY_S
        while True:
            responses = self._responses or self._subscribe(self._cursor)
            self._responses = None
            try:
                async with aclosing(responses):
                    first, self._first = self._first, None
                    if first is not None:
                        yield self._chunk(first)
                    async for response in responses:
                        lost_at, delay = None, _FIRST_DELAY_S
                        yield self._chunk(response)
            except DaemonError as error:
                now = time.monotonic()
                lost_at = now if lost_at is None else lost_at
                if not error.is_unavailable or now - lost_at > RECONNECT_SECONDS:
                    yield self._lost
                    return
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY_S)
                continue
            if self._ended:
                yield self._ended
            return

    def _chunk(self, response: ResponseT) -> bytes:
        frames, cursor = self._frames(response)
        self._cursor = max(self._cursor, cursor)
        return sse.encode(frames)


def _end(reason: str) -> bytes:
    return sse.encode([sse.Frame(strict_json.dumps({"reason": reason}), event="end")])


class _TaskFrames:
    """Frames of a task's events; the task of the first response gives statuses their kind."""

    def __init__(self, since: int) -> None:
        self._since = since
        self._trace_parent = ""

    def of(self, response: task_service_pb2.SubscribeToTaskResponse) -> tuple[list[sse.Frame], int]:
        frames: list[sse.Frame] = []
        if response.HasField("task"):
            self._trace_parent = response.task.trace_parent
        if response.truncated:
            cut = {
                "oldest_offset": response.oldest_sequence,
                "since": self._since,
                "hint": "older events are no longer kept; read the task and its messages",
            }
            frames.append(sse.Frame(strict_json.dumps(cut), event="backfill_truncated"))
        for event in response.events:
            data = self._data(event)
            if data is not None:
                frames.append(
                    sse.Frame(strict_json.dumps(data), event="message", id=str(event.sequence))
                )
        newest = response.events[-1].sequence if response.events else 0
        self._since = max(self._since, newest, response.cursor)
        return frames, self._since

    def _data(self, event: event_pb2.Event) -> Json | None:
        kind = event.WhichOneof("payload")
        moment = to_text(event.time)
        head: Json = {"offset": event.sequence, "task_id": event.task_id}
        tail: Json = {"created_at": moment, "updated_at": moment}
        if kind == "message_changed":
            message = render.message(event.message_changed)
            status = message.pop("status")
            return {"type": "message", **head, **message, "state": status, "status": status}
        if kind == "status_changed":
            changed_state = event.status_changed.state
            if changed_state in _TOLD_BY_COMPANION:
                return None
            task = task_pb2.Task(state=changed_state, outcome=event.status_changed.outcome)
            return {"type": "task_status", **head, **_status(task), **tail}
        if kind == "progressed":
            progress = fragments.progress_of(event.progressed)
            return {"type": "task_progress", **head, "progress": progress, **tail}
        if kind == "artifact_changed":
            changed = event.artifact_changed
            return {
                "type": "task_artifact",
                **head,
                "artifact": render.artifact(changed.artifact),
                "append": changed.append,
                "last_chunk": changed.last_chunk,
                **tail,
            }
        if kind == "input_required":
            asked = fragments.input_request(event.input_required)
            return {"type": "input_request", **head, "input_request": asked, **tail}
        if kind == "auth_required":
            asked = fragments.auth_request(event.auth_required)
            return {"type": "auth_request", **head, "auth_request": asked, **tail}
        if kind == "result_stored":
            result = fragments.json_or(event.result_stored.result, None)
            return {"type": "task_result", **head, "result": result, **tail}
        if kind == "failed":
            failed = event.failed
            task = task_pb2.Task(
                state=task_pb2.TASK_STATE_FAILED,
                failure=failed.failure,
                outcome=failed.outcome,
                retry_advice=failed.retry_advice,
                end_time=event.time,
                trace_parent=self._trace_parent,
            )
            return {
                "type": "task_status",
                **head,
                **_status(task),
                "error": render.task_error(task),
                **tail,
            }
        if kind == "resolved":
            resolution = fragments.resolution(event.resolved)
            return {"type": "task_resolved", **head, "resolution": resolution, **tail}
        return None


def _status(task: task_pb2.Task) -> Json:
    """What a status says: this wire's word, the product's view, and whether it is the last."""
    return {
        "status": projection.openapi_status(task),
        "product": projection.product(task).members(),
        "final": task.state in words.TERMINAL_STATES,
    }


def _operation_frames(
    response: operation_service_pb2.SubscribeToOperationResponse,
) -> tuple[list[sse.Frame], int]:
    frames = [
        sse.Frame(
            strict_json.dumps(render.operation_event(event)),
            event=event.type,
            id=str(event.sequence),
        )
        for event in response.events
    ]
    return frames, response.events[-1].sequence if response.events else 0
