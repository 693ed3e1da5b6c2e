"""Python values as fields of the contract: messages, options, states."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.api.v1 import content_pb2, task_pb2, task_service_pb2
from aiosd.sdk import json_text, parts
from aiosd.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aiosd.api.v1 import webhook_pb2

MessageLike: TypeAlias = "parts.PartLike | Sequence[parts.PartLike] | content_pb2.Message"
"""What stands for a user's message: a text, some parts, or the whole message."""

PriorityLike: TypeAlias = "str | task_pb2.Priority.ValueType"
"""A priority: "low", "normal", "high", "urgent", or the enum's value."""

StateLike: TypeAlias = "str | task_pb2.TaskState.ValueType"
"""A task state: a word such as "input_required", or the enum's value."""

_STATE_WORDS = {
    name.removeprefix("TASK_STATE_").lower(): value
    for name, value in task_pb2.TaskState.items()
    if value != task_pb2.TASK_STATE_UNSPECIFIED
}

TERMINAL = frozenset(
    {
        task_pb2.TASK_STATE_COMPLETED,
        task_pb2.TASK_STATE_FAILED,
        task_pb2.TASK_STATE_CANCELED,
        task_pb2.TASK_STATE_REJECTED,
    }
)
INTERRUPTED = frozenset({task_pb2.TASK_STATE_INPUT_REQUIRED, task_pb2.TASK_STATE_AUTH_REQUIRED})


def is_terminal(task: task_pb2.Task) -> bool:
    """True if nothing can follow."""
    return task.state in TERMINAL


def is_interrupted(task: task_pb2.Task) -> bool:
    """True if the task waits for input or an authorization."""
    return task.state in INTERRUPTED


def idempotency_key(given: str | None) -> str:
    """The caller's key; one of its own where there is none. Raises ValueError on an empty one."""
    if given == "":
        raise ValueError("request_id: must not be empty; None stands for no key")
    return given or uuid.uuid4().hex


def create_task(
    *,
    capability_id: str,
    arguments: dict[str, Any] | None,
    wait_ms: int,
    timeout_ms: int | None,
    priority: PriorityLike,
    retry: dict[str, int] | None,
    metadata: dict[str, Any] | None,
    request_id: str,
    retry_safe: bool,
    deadline_ms: int,
    message: MessageLike | None,
    context_id: str,
    session_id: str,
    reference_task_ids: Iterable[str],
    webhooks: Iterable[webhook_pb2.Webhook],
) -> task_service_pb2.CreateTaskRequest:
    """The request of `Client.create`, whose docstring explains the arguments."""
    options = task_pb2.TaskOptions(
        priority=_priority(priority), retry_safe=retry_safe, synchronous=wait_ms > 0
    )
    if timeout_ms is not None:
        options.timeout.FromMilliseconds(timeout_ms)
    if deadline_ms:
        options.deadline.FromMilliseconds(deadline_ms)
    if retry is not None:
        unknown = sorted(set(retry) - {"max_attempts", "delay_ms"})
        if unknown:
            raise ValueError(f"retry: unknown member {unknown[0]!r}")
        options.retry.max_attempts = retry.get("max_attempts", 1)
        options.retry.delay.FromMilliseconds(retry.get("delay_ms", 0))
    request = task_service_pb2.CreateTaskRequest(
        capability_id=capability_id,
        arguments=json_text.dump_object(arguments or {}, "arguments"),
        message=None if message is None else user_message(message),
        context_id=context_id,
        options=options,
        metadata=json_text.dump_object(metadata or {}, "metadata"),
        request_id=request_id,
        reference_task_ids=list(reference_task_ids),
        session_id=session_id,
        webhooks=list(webhooks),
    )
    if wait_ms:
        request.wait.FromMilliseconds(wait_ms)
    return request


def user_message(value: MessageLike) -> content_pb2.Message:
    """A message of the side that asks. A whole message is taken as it is."""
    if isinstance(value, content_pb2.Message):
        return value
    return content_pb2.Message(
        message_id=f"msg-{uuid.uuid4().hex}",
        role=content_pb2.ROLE_USER,
        parts=encode_parts(value, "message"),
        status=content_pb2.MESSAGE_STATUS_COMPLETED,
    )


def encode_parts(
    value: parts.PartLike | Sequence[parts.PartLike], field: str
) -> list[content_pb2.Part]:
    """One part or several, encoded."""
    if isinstance(value, list | tuple):
        return [parts.encode(part, field) for part in value]
    return [parts.encode(value, field)]  # type: ignore[arg-type] # a str is a sequence too


def state(value: StateLike) -> task_pb2.TaskState.ValueType:
    """The enum's value; canceled may have two l. Raises ValueError for an unknown word."""
    if not isinstance(value, str):
        return value
    word = spelled(value.lower(), _STATE_WORDS)
    if word is None:
        raise ValueError(f"states: {value!r} is no task state")
    return _STATE_WORDS[word]


def _priority(value: PriorityLike) -> task_pb2.Priority.ValueType:
    if isinstance(value, str):
        try:
            return task_pb2.Priority.Value(f"PRIORITY_{value.upper()}")
        except ValueError:
            raise ValueError(f"priority: {value!r} is no priority") from None
    return value
