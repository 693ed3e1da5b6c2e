"""SendMessage and SendStreamingMessage (a2a.md 5.5)."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

from a2a.types import a2a_pb2
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError

from aiosd.a2a_wire.words import NEEDS
from aiosd.api.v1 import interruption_pb2, task_pb2, task_service_pb2
from gateway.a2a import mapping, media_types, pushes, requests, snapshot, streaming, words
from gateway.a2a.errors import UnavailableError, invalid

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.a2a.call import Call
    from gateway.a2a.streaming import Item

Answer: TypeAlias = a2a_pb2.Task | a2a_pb2.Message

_RETRY_DELAY_S: Final = 0.2


async def send(call: Call, params: a2a_pb2.SendMessageRequest) -> Answer:
    """Make a task or answer one; wait for the end or for the next question unless told not to."""
    requests.check_message(params)
    configuration = params.configuration
    wait_ms = 0 if configuration.return_immediately else call.context.settings.sync_wait_ms
    until = time.monotonic() + wait_ms / 1000
    native, is_new = await _begin(call, params, wait_ms)
    if not is_new or native.state != task_pb2.TASK_STATE_COMPLETED:
        # Whoever waits or has waited is told by the state history what it was that was asked.
        native = await _settled(call, native, until)
    length = configuration.history_length if configuration.HasField("history_length") else None
    return await _answer(call, native, length)


async def stream(call: Call, params: a2a_pb2.SendMessageRequest) -> AsyncGenerator[Item, None]:
    """As `send`, as a stream: the task, what happens to it, until its end or its next question."""
    requests.check_message(params)
    with call.admission.stream(call.request.caller):
        native, is_new = await _begin(call, params)
        configuration = params.configuration
        length = configuration.history_length if configuration.HasField("history_length") else None
        if is_new:
            first = _new_task(native, params.message, length)
            items = streaming.of_new(call, native, first)
        else:
            items = streaming.of_known(call, native.task_id, length, ends_at_interruption=True)
        async with aclosing(items):
            async for item in items:
                yield item


async def _begin(
    call: Call, params: a2a_pb2.SendMessageRequest, wait_ms: int = 0
) -> tuple[task_pb2.Task, bool]:
    """The task that the message makes or answers, and whether it was made just now.

    A new task is waited for, in the same call, until it is settled or the time is over.
    """
    if params.message.task_id:
        return await _answered(call, params), False
    request = requests.creation(call, params)
    if call.context.settings.a2a_check_media_types:
        await media_types.check(call, request.capability_id, params.message)
    # Under an idempotency key, so that it may be asked again when no answer came.
    create = call.context.daemon.tasks.CreateTask
    request.wait.FromMilliseconds(wait_ms)
    answer = await call.ask(create, request, wait_ms=wait_ms, repeatable=True)
    return answer.task, answer.created


async def _answered(call: Call, params: a2a_pb2.SendMessageRequest) -> task_pb2.Task:
    """Give a message to the task that it names (a2a.md 5.5)."""
    message = params.message
    native = await snapshot.fetch(call, message.task_id)
    if message.context_id and message.context_id != native.context_id:
        raise invalid("message.contextId", "is not the context of the task")
    if call.dedupes:
        said = await snapshot.messages(call, native.task_id)
        if any(one.message_id == message.message_id for one in said):
            return native
    word = task_pb2.TaskState.Name(native.state).removeprefix("TASK_STATE_").lower()
    if native.state in words.TERMINAL:
        raise UnsupportedOperationError(
            f"the task is {word}; send a new message with referenceTaskIds", data={"state": word}
        )
    if params.configuration.HasField("task_push_notification_config"):
        config = params.configuration.task_push_notification_config
        await pushes.register(call, native.task_id, config)
    if native.state == task_pb2.TASK_STATE_AUTH_REQUIRED:
        return await _decided(call, native, message)
    return await _submitted(call, message)


async def _submitted(call: Call, message: a2a_pb2.Message) -> task_pb2.Task:
    request = requests.answer(message)
    submit = call.context.daemon.tasks.SubmitInput
    try:
        return (await call.ask(submit, request)).task
    except InvalidParamsError as error:
        problems = (error.data or {}).get("errors", ())
        if not any(one["field"] == "message.messageId" for one in problems):
            raise
    # Clients reuse ids, and a repeated one means nothing here (a2a.md, decisions).
    request.message.message_id = f"{request.message.message_id[:100]}-{secrets.token_hex(4)}"
    return (await call.ask(submit, request)).task


async def _decided(call: Call, native: task_pb2.Task, message: a2a_pb2.Message) -> task_pb2.Task:
    """A person's decision; credentials go to the task service itself, never into a message."""
    decided = requests.decision(message)
    wait = native.interruption
    if decided is None or wait.kind != interruption_pb2.NEED_KIND_HUMAN_APPROVAL:
        raise UnsupportedOperationError(
            "the task waits for an authorization, which is not given in a message",
            data={"state": "auth_required", "kind": NEEDS.get(wait.kind, "")},
        )
    approve, confirmation_id = decided
    request = task_service_pb2.AuthenticateTaskRequest(
        task_id=native.task_id,
        auth_response=interruption_pb2.AuthResponse(
            type=interruption_pb2.AUTH_TYPE_APPROVAL,
            approve=approve,
            confirmation_id=confirmation_id,
        ),
    )
    return (await call.ask(call.context.daemon.tasks.AuthenticateTask, request)).task


async def _settled(call: Call, native: task_pb2.Task, until: float) -> task_pb2.Task:
    """The task at its end or its next question, or as it is when the time is up."""
    while True:
        left_ms = max(0, int((until - time.monotonic()) * 1000))
        try:
            native = await snapshot.fetch(call, native.task_id, wait_ms=left_ms)
            if left_ms == 0 or streaming.is_settled(native):
                return native
        except UnavailableError:
            if left_ms == 0:
                raise
            await asyncio.sleep(_RETRY_DELAY_S)


async def _answer(call: Call, native: task_pb2.Task, history_length: int | None) -> Answer:
    if native.state == task_pb2.TASK_STATE_COMPLETED and native.direct_message:
        reply = snapshot.last_reply(await snapshot.messages(call, native.task_id))
        if reply is not None:
            return mapping.to_message(reply, native.task_id, native.context_id)
    return (await snapshot.load(call, native, history_length=history_length)).shown


def _new_task(
    native: task_pb2.Task, message: a2a_pb2.Message, history_length: int | None
) -> a2a_pb2.Task:
    """A task that has just been made holds its message and nothing else."""
    asked = a2a_pb2.Message()
    asked.CopyFrom(message)
    asked.task_id, asked.context_id = native.task_id, native.context_id
    history = [asked] if history_length != 0 else []
    return mapping.to_task(native, snapshot.status(native), history)
