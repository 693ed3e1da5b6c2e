"""From a failed call to the error that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from grpc import aio

from aiosd.sdk.errors import (
    AiosdError,
    Conflict,
    Exhausted,
    Internal,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    Refused,
    TimedOut,
    Unavailable,
    Unimplemented,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_DETAILS = "grpc-status-details-bin"

_KINDS: dict[grpc.StatusCode, type[AiosdError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: Refused,
    grpc.StatusCode.ABORTED: Refused,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNAUTHENTICATED: NotAuthenticated,
    grpc.StatusCode.PERMISSION_DENIED: NotPermitted,
    grpc.StatusCode.DEADLINE_EXCEEDED: TimedOut,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.INTERNAL: Internal,
}


def from_rpc(error: grpc.RpcError) -> AiosdError:
    """The AiosdError that a failed call stands for, made with either interface of gRPC."""
    if not isinstance(error, grpc.Call | aio.AioRpcError):
        return AiosdError(grpc.StatusCode.UNKNOWN, message=str(error))
    details = _Details()
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            details = _read_details(value)
    kind = _KINDS.get(error.code(), AiosdError)
    return kind(
        error.code(),
        details.reason,
        error.details() or "",
        details.metadata,
        details.violations,
        details.retry_after_ms,
    )


@dataclass(frozen=True, slots=True)
class _Details:
    reason: str = ""
    metadata: dict[str, str] | None = None
    violations: tuple[tuple[str, str], ...] = ()
    retry_after_ms: int | None = None


# google.rpc.Status and its details come from googleapis-common-protos, which the SDK does not
# depend on: its pins would keep the SDK out of other programs' environments. Three messages of
# strings are read by hand instead; Any and Duration are protobuf's own.


def _read_details(status: bytes) -> _Details:
    """ErrorInfo, BadRequest and RetryInfo of an encoded google.rpc.Status; malformed: nothing."""
    reason, metadata, retry_after_ms = "", {}, None
    violations: list[tuple[str, str]] = []
    try:
        for detail in _submessages(status, 3):
            packed = AnyMessage.FromString(detail)
            match packed.type_url.rpartition("/")[2]:
                case "google.rpc.ErrorInfo":
                    reason = _string(packed.value, 1)
                    metadata = {
                        _string(entry, 1): _string(entry, 2)
                        for entry in _submessages(packed.value, 3)
                    }
                case "google.rpc.BadRequest":
                    violations += (
                        (_string(violation, 1), _string(violation, 2))
                        for violation in _submessages(packed.value, 1)
                    )
                case "google.rpc.RetryInfo":
                    for delay in _submessages(packed.value, 1):
                        retry_after_ms = Duration.FromString(delay).ToMilliseconds()
                case _:
                    pass
    except (ValueError, IndexError, DecodeError):
        return _Details()
    return _Details(reason, metadata, tuple(violations), retry_after_ms)


def _string(message: bytes, number: int) -> str:
    values = _submessages(message, number)
    return values[-1].decode("utf-8") if values else ""


def _submessages(message: bytes, number: int) -> list[bytes]:
    """The length-delimited values of field `number`, in order."""
    return [value for field, value in _fields(message) if field == number]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each length-delimited field; varints are passed over."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 2:
                size, at = _varint(message, at)
                if at + size > len(message):
                    raise ValueError("cut off")
                yield tag >> 3, message[at : at + size]
                at += size
            case _:
                raise ValueError("none of the messages read here has a fixed-width field")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")
