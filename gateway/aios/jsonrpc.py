"""JSON-RPC 2.0 without a transport: bytes to calls, outcomes to text.

`parse` never raises: what cannot be called becomes an `Invalid` item with its error, so that one
bad element of a batch does not cost the others their answers. Two readings where the JSON-RPC
document leaves room: an `id` is a string or an integral number and never null, and an
`Invalid Request` is answered under its id whenever the id itself was readable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aiosd.aios_wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    AiosError,
    ErrorEntry,
    error_object,
)
from gateway import strict_json
from gateway.strict_json import StrictJsonError

_log = logging.getLogger(__name__)

Id: TypeAlias = str | int | float
Params: TypeAlias = dict[str, Any]

MAX_CONCURRENT_CALLS: Final = 8
"""Calls of one batch that run at the same time."""
_RESERVED_PREFIX: Final = "rpc."
_RESERVED_AND_KNOWN: Final = frozenset({"rpc.discover"})


@dataclass(frozen=True, slots=True)
class Request:
    """A call that wants an answer. Absent params are `{}`."""

    id: Id
    method: str
    params: Params


@dataclass(frozen=True, slots=True)
class Notification:
    """A call that is carried out and never answered, not even with an error."""

    method: str
    params: Params


@dataclass(frozen=True, slots=True)
class Invalid:
    """What cannot be called. `id` is None where none could be read, and is answered as null."""

    id: Id | None
    error: AiosError


Item: TypeAlias = Request | Notification | Invalid


@dataclass(frozen=True, slots=True)
class Message:
    """The items of one body, in their order. `is_batch` says whether answers form an array."""

    items: tuple[Item, ...]
    is_batch: bool

    @property
    def single_request(self) -> Request | None:
        """The request when the body is exactly one: the only form that may answer as a stream."""
        match self.items:
            case (Request() as request,) if not self.is_batch:
                return request
            case _:
                return None


@dataclass(frozen=True, slots=True)
class ErrorStamp:
    """What every error is stamped with: a clock in milliseconds since the epoch, and the trace."""

    now_ms: Callable[[], int]
    trace_id: str


Dispatch: TypeAlias = Callable[[Request | Notification], Awaitable[object]]


def parse(
    body: bytes | bytearray,
    *,
    max_batch_size: int,
    max_string_bytes: int = strict_json.MAX_STRING_BYTES,
) -> Message:
    """Read one message or one batch. Never raises, whatever the bytes are.

    An empty batch, and one of more than `max_batch_size` items, is one -32600 for all of it.
    """
    try:
        value = strict_json.loads(body, max_string_bytes=max_string_bytes)
    except StrictJsonError as exc:
        return _refused(PARSE_ERROR, exc.message, data={"reason": exc.kind})
    if not isinstance(value, list):
        item = _parse_item(value)
        # A notification's error has no reader.
        return Message(() if item is None else (item,), is_batch=False)
    if not value:
        return _refused(INVALID_REQUEST, "a batch holds at least one call")
    if len(value) > max_batch_size:
        return _refused(
            INVALID_REQUEST,
            f"a batch holds at most {max_batch_size} calls, this one holds {len(value)}",
            data={"max_batch_size": max_batch_size},
        )
    items = (_parse_item(element) for element in value)
    return Message(tuple(item for item in items if item is not None), is_batch=True)


def _refused(entry: ErrorEntry, details: str, *, data: dict[str, Any] | None = None) -> Message:
    return Message((Invalid(None, AiosError(entry, details, data=data)),), is_batch=False)


def _parse_item(value: object) -> Item | None:
    """One element as an item; None for a notification that has an error, and so no answer."""
    if not isinstance(value, dict):
        return Invalid(None, AiosError(INVALID_REQUEST, "a call is a JSON object"))
    call_id: Id | None = None
    if "id" in value:
        call_id = _id(value["id"])
        if call_id is None:
            return _invalid_request(None, "id", "a string or an integral number")
    if value.get("jsonrpc") != "2.0":
        return _invalid_request(call_id, "jsonrpc", 'the string "2.0"')
    method = value.get("method")
    if not isinstance(method, str):
        return _invalid_request(call_id, "method", "a string")
    params = value.get("params", {})
    if not isinstance(params, dict):
        error = AiosError(INVALID_PARAMS, "params must be an object", data={"field": "params"})
    elif method.startswith(_RESERVED_PREFIX) and method not in _RESERVED_AND_KNOWN:
        error = AiosError(METHOD_NOT_FOUND, "method names that begin with rpc. are reserved")
    elif call_id is not None:
        return Request(call_id, method, params)
    else:
        return Notification(method, params)
    return None if call_id is None else Invalid(call_id, error)


def _id(value: object) -> Id | None:
    """The id as it came, so that it can go back unchanged; None if it may not be one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str | int) or (isinstance(value, float) and value.is_integer()):
        return value
    return None


def _invalid_request(call_id: Id | None, field: str, expected: str) -> Invalid:
    error = AiosError(INVALID_REQUEST, f"{field} must be {expected}", data={"field": field})
    return Invalid(call_id, error)


def result_text(call_id: Id, result: object) -> str:
    """The response that carries a result. Raises what `strict_json.dumps` raises."""
    return strict_json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result})


def error_text(call_id: Id | None, error: AiosError, stamp: ErrorStamp) -> str:
    """The response that carries an error."""
    rendered = error_object(error, now_ms=stamp.now_ms(), trace_id=stamp.trace_id)
    return strict_json.dumps({"jsonrpc": "2.0", "id": call_id, "error": rendered})


async def answer(message: Message, dispatch: Dispatch, stamp: ErrorStamp) -> str | None:
    """Carry out a message; the text to send back, or None when it held notifications only (202)."""
    answers = await answer_batch(message.items, dispatch, stamp)
    if not answers:
        return None
    return f"[{','.join(answers)}]" if message.is_batch else answers[0]


async def answer_batch(
    items: tuple[Item, ...],
    dispatch: Dispatch,
    stamp: ErrorStamp,
    *,
    max_concurrent: int = MAX_CONCURRENT_CALLS,
) -> list[str]:
    """Carry out calls, at most `max_concurrent` at once; one response text each, in their order.

    `dispatch` returns a JSON value or raises `AiosError`. Anything else that it raises, and a
    result that has no JSON, is logged and answered as -32603 without its text (S-17).
    """
    if len(items) == 1:
        only = await _answer_item(items[0], dispatch, stamp)
        return [] if only is None else [only]
    answers: list[str | None] = [None] * len(items)
    remaining = iter(enumerate(items))

    async def work() -> None:
        for position, item in remaining:
            answers[position] = await _answer_item(item, dispatch, stamp)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(max_concurrent, len(items))):
            group.create_task(work())
    return [text for text in answers if text is not None]


async def _answer_item(item: Item, dispatch: Dispatch, stamp: ErrorStamp) -> str | None:
    if isinstance(item, Invalid):
        return error_text(item.id, item.error, stamp)
    call_id = item.id if isinstance(item, Request) else None
    try:
        result = await dispatch(item)
        return None if call_id is None else result_text(call_id, result)
    except AiosError as error:
        failure = error
    except Exception:
        _log.exception(
            "rpc.failed", extra={"method": item.method[:128], "trace_id": stamp.trace_id}
        )
        failure = AiosError(INTERNAL_ERROR)
    return None if call_id is None else error_text(call_id, failure, stamp)
