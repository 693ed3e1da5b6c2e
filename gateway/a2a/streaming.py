"""The streams of this wire: a task first, then what happens to it, in order."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from a2a.types import a2a_pb2
from a2a.utils.errors import UnsupportedOperationError

from aiosd.a2a_wire.words import RESULT_ARTIFACT
from aiosd.api.v1 import content_pb2, task_pb2
from gateway.a2a import mapping, snapshot, words
from gateway.a2a.following import Following
from gateway.a2a.json_values import to_value
from gateway.a2a.snapshot import Seen
from gateway.a2a.translate import Translator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.a2a.call import Call
    from gateway.a2a.translate import Update

Item: TypeAlias = (
    a2a_pb2.Task | a2a_pb2.Message | a2a_pb2.TaskStatusUpdateEvent | a2a_pb2.TaskArtifactUpdateEvent
)

DIRECT_ANSWER_S: Final = 0.25
"""How long the start of a stream is held while the answer may still be a message alone."""


def is_settled(native: task_pb2.Task) -> bool:
    """Whether a caller who waits is to be answered: at an end or an open question."""
    if native.state in words.TERMINAL:
        return True
    return native.state in words.INTERRUPTED and not native.resume_pending


async def of_new(
    call: Call, native: task_pb2.Task, first: a2a_pb2.Task
) -> AsyncGenerator[Item, None]:
    """The stream of a task that has just been made; of one message if that is all there is."""
    following = Following(call, native.task_id, native.event_head)
    await following.open()
    translator = _translator(call, native, Seen())
    updates = _until_question(following.updates(translator), translator)
    _stamp(call, first, native.event_head)
    try:
        async with aclosing(_direct_or_task(call, native, first, updates)) as items:
            async for item in items:
                yield item
    finally:
        await following.close()


async def of_known(
    call: Call,
    task_id: str,
    history_length: int | None = None,
    *,
    ends_at_interruption: bool,
) -> AsyncGenerator[Item, None]:
    """The stream of a task that was there before: its snapshot, then what follows that.

    Raises TaskNotFoundError; UnsupportedOperationError for a terminal task that is subscribed to.
    """
    following = Following(call, task_id, None)
    native = await following.open()
    try:
        call.check_owned(native)
        if native.state in words.TERMINAL and not ends_at_interruption:
            raise _nothing_follows(native)
        # The stream's own task carries no history; what came after it is the stream's to tell.
        changes = (await snapshot.fetch(call, task_id)).state_history
        native.state_history.extend(one for one in changes if one.sequence <= native.event_head)
        shot = await snapshot.load(call, native, history_length=history_length)
    except BaseException:
        await following.close()
        raise
    _stamp(call, shot.shown, native.event_head)
    translator = _translator(call, native, shot.seen)
    updates = following.updates(translator)
    if ends_at_interruption:
        updates = _until_question(updates, translator)
    try:
        yield shot.shown
        if ends_at_interruption and is_settled(native):
            return
        async with aclosing(updates):
            async for update in updates:
                yield update
    finally:
        await following.close()


async def resumed(call: Call, task_id: str, after: int) -> AsyncGenerator[Item, None]:
    """The stream of a task behind an event, without a snapshot (resumable streams).

    What retention has cut is made up for by a snapshot.
    """
    following = Following(call, task_id, after)
    native = await following.open()
    try:
        call.check_owned(native)
        is_over = native.state in words.TERMINAL and after >= native.event_head
        if is_over:
            raise _nothing_follows(native)
        if after + 1 < native.event_floor:
            await following.close()
            items = of_known(call, task_id, ends_at_interruption=False)
            async with aclosing(items):
                async for item in items:
                    yield item
            return
        for change in (await snapshot.fetch(call, task_id)).state_history:
            if change.sequence <= after:
                native.state = change.state
        translator = _translator(call, native, Seen(), after)
        async with aclosing(following.updates(translator)) as updates:
            async for update in updates:
                yield update
    finally:
        await following.close()


async def _direct_or_task(
    call: Call,
    native: task_pb2.Task,
    first: a2a_pb2.Task,
    updates: AsyncGenerator[Update, None],
) -> AsyncGenerator[Item, None]:
    """Hold the start for a moment: an answer that is a message alone comes without a task."""
    held: list[Update] = []
    is_holding = True
    loop = asyncio.get_running_loop()
    until = loop.time() + DIRECT_ANSWER_S
    coming: asyncio.Future[Update] | None = None
    try:
        while is_holding:
            coming = coming or asyncio.ensure_future(anext(updates))
            await asyncio.wait({coming}, timeout=max(0.0, until - loop.time()))
            if not coming.done():
                break
            try:
                update = coming.result()
            except StopAsyncIteration:
                coming = None
                break
            coming = None
            held.append(update)
            is_holding = _may_be_direct(update)
        if coming is None and not is_holding:
            message = await _direct_message(call, native.task_id, held)
            if message is not None:
                yield message
                return
        yield first
        for update in held:
            yield update
        if coming is not None:
            with suppress(StopAsyncIteration):
                yield await coming
            coming = None
        async for update in updates:
            yield update
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        await updates.aclose()


def _may_be_direct(update: Update) -> bool:
    """Whether a message alone may still be the answer after this update."""
    if isinstance(update, a2a_pb2.TaskArtifactUpdateEvent):
        return update.artifact.artifact_id == RESULT_ARTIFACT
    return update.status.state == a2a_pb2.TASK_STATE_WORKING and "aiosProgress" not in (
        update.metadata.fields
    )


async def _direct_message(call: Call, task_id: str, held: list[Update]) -> a2a_pb2.Message | None:
    last = held[-1] if held else None
    is_done = isinstance(last, a2a_pb2.TaskStatusUpdateEvent) and (
        last.status.state == a2a_pb2.TASK_STATE_COMPLETED
    )
    if not is_done:
        return None
    native = await snapshot.fetch(call, task_id)
    if not native.direct_message:
        return None
    reply = snapshot.last_reply(await snapshot.messages(call, task_id))
    if reply is None:
        return None
    return mapping.to_message(reply, native.task_id, native.context_id)


async def _until_question(
    updates: AsyncGenerator[Update, None], translator: Translator
) -> AsyncGenerator[Update, None]:
    """End where the caller is asked: the stream of a send closes at an interruption (5.14)."""
    async with aclosing(updates):
        async for update in updates:
            yield update
            if translator.state in words.INTERRUPTED and _is_question(update):
                return


def _is_question(update: Update) -> bool:
    return isinstance(update, a2a_pb2.TaskStatusUpdateEvent) and update.status.HasField("message")


def _translator(call: Call, native: task_pb2.Task, seen: Seen, after: int = 0) -> Translator:
    async def last_reply() -> content_pb2.Message | None:
        return snapshot.last_reply(await snapshot.messages(call, native.task_id))

    return Translator(
        native,
        seen,
        last_reply,
        after=after,
        with_sequence=call.activates(words.RESUMABLE_STREAMS),
    )


def _stamp(call: Call, shown: a2a_pb2.Task, sequence: int) -> None:
    if call.activates(words.RESUMABLE_STREAMS):
        shown.metadata.fields[words.SEQUENCE].CopyFrom(to_value(sequence))


def _nothing_follows(native: task_pb2.Task) -> UnsupportedOperationError:
    word = task_pb2.TaskState.Name(native.state).removeprefix("TASK_STATE_").lower()
    return UnsupportedOperationError(
        f"the task is {word}: nothing follows; read it with GetTask", data={"state": word}
    )
