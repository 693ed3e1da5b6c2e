"""The errors of this wire, and the one table from the daemon's (a2a.md 5.4).

The SDK knows codes and statuses of the errors of the protocol. Four that the protocol leaves to
HTTP and gRPC are added to its tables here, so that its front ends write them too; and so is what
it takes for the details of an error, which must be readable as `google.rpc.ErrorInfo`.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import grpc
from a2a.server.request_handlers import response_helpers
from a2a.utils import error_handlers
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    A2A_ERROR_REASONS,
    A2AError,
    ErrorMapping,
    InternalError,
    InvalidParamsError,
    JSONParseError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)

from gateway.a2a.words import PROTOCOL_VERSION
from gateway.daemon_channel import TIMED_OUT, UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.daemon_channel import DaemonError


class UnauthenticatedError(A2AError):
    """The credential says nothing to the daemon."""

    message = "a valid bearer token is required"


class ForbiddenError(A2AError):
    """The caller is known and may not do this."""

    message = "the credential does not allow this"


class BusyError(A2AError):
    """A limit is reached; the same call may succeed later."""

    message = "the task service is busy; ask again later"


class UnavailableError(A2AError):
    """The daemon does not answer; the same call may succeed later."""

    message = "the task service is not running; ask again"


ADDED: Final[Mapping[type[A2AError], tuple[ErrorMapping, grpc.StatusCode]]] = MappingProxyType(
    {
        UnauthenticatedError: (
            ErrorMapping(401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
            grpc.StatusCode.UNAUTHENTICATED,
        ),
        ForbiddenError: (
            ErrorMapping(403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
            grpc.StatusCode.PERMISSION_DENIED,
        ),
        BusyError: (
            ErrorMapping(429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        ),
        UnavailableError: (
            ErrorMapping(503, "UNAVAILABLE", "UNAVAILABLE"),
            grpc.StatusCode.UNAVAILABLE,
        ),
    }
)
"""What the SDK's tables lack: the REST status and reason, and the gRPC code."""

for _kind, (_mapping, _code) in ADDED.items():
    A2A_ERROR_MAPPING[_kind] = _mapping
    A2A_ERROR_REASONS[_kind] = _mapping.reason

A2A_ERROR_REASONS[JSONParseError] = "PARSE_ERROR"


def details(error: A2AError) -> list[dict[str, Any]]:
    """The details of an error in JSON, ErrorInfo first.

    The SDK writes all of `data` as the metadata of ErrorInfo, which is a map of strings. The list
    of wrong fields is none, and stands in `google.rpc.BadRequest` anyway.
    """
    built = _SDK_DETAILS(error)
    metadata = built[0]["metadata"]
    built[0]["metadata"] = {name: str(metadata[name]) for name in metadata if name != "errors"}
    return built


_SDK_DETAILS: Final = error_handlers.build_error_details
for _front_end in (error_handlers, response_helpers):
    vars(_front_end)["build_error_details"] = details

_INVALID: Final = {
    "ARGUMENT_INVALID": "",
    "ARGUMENTS_REJECTED": "message.parts",
    "INPUT_REJECTED": "message.parts",
    "INTERRUPTION_MISMATCH": "message.parts",
    "CREDENTIAL_REFUSED": "message.parts",
    "AUTH_REJECTED": "message.parts",
    "CAPABILITY_NOT_FOUND": "metadata.capabilityId",
    "REQUEST_ID_CONFLICT": "message.messageId",
    "WEBHOOK_URL_REFUSED": "url",
    "CURSOR_INVALID": "AIOS-After",
}
"""Reasons that are the request's fault, with the field when the daemon names none of this wire."""

_FIELDS: Final = {
    "arguments": "message.parts",
    "input": "message.parts",
    "context_id": "message.contextId",
    "request_id": "message.messageId",
    "webhook.url": "url",
    "url": "url",
}
_BUSY: Final = frozenset(
    {"QUEUE_FULL", "RATE_LIMITED", "STORE_FULL", "PAUSE_UNANSWERED", "TOO_MANY_WEBHOOKS"}
)
_UNAVAILABLE: Final = frozenset(
    {UNAVAILABLE, TIMED_OUT, "UNAVAILABLE", "SHUTTING_DOWN", "STARTING"}
)
_SNAKE: Final = re.compile(r"_([a-z])")


def invalid(field: str, problem: str) -> InvalidParamsError:
    """Refuse one field of a request, by its name on this wire."""
    return InvalidParamsError(
        f"{field}: {problem}", data={"errors": [{"field": field, "message": problem}]}
    )


def version_not_supported(given: str) -> VersionNotSupportedError:
    """Refuse a version of the protocol; none at all means 0.3."""
    return VersionNotSupportedError(
        f"A2A version {given or '0.3'!r} is not served here; send A2A-Version: {PROTOCOL_VERSION}",
        data={"supportedVersions": PROTOCOL_VERSION},
    )


def from_daemon(refused: DaemonError) -> A2AError:
    """The error of this wire for one of the daemon's."""
    reason = refused.reason
    if reason in ("TASK_NOT_FOUND", "WEBHOOK_NOT_FOUND"):
        return TaskNotFoundError()
    if reason in _INVALID:
        return _invalid(refused)
    if reason in ("TASK_STATE_INVALID", "NOT_PAUSABLE"):
        return _wrong_state(refused)
    if reason in _BUSY:
        return BusyError(refused.message, data={"reason": reason})
    if reason in _UNAVAILABLE:
        return UnavailableError()
    if reason == "OUTCOME_UNKNOWN":
        return UnavailableError("it is not known whether this took effect; look before repeating")
    if reason == "UNAUTHENTICATED":
        return UnauthenticatedError()
    if reason == "PERMISSION_DENIED":
        return ForbiddenError()
    if reason == "NOT_IMPLEMENTED":
        return UnsupportedOperationError()
    incident = refused.metadata.get("incident", "")
    return InternalError(data={"incident": incident} if incident else None)


def _invalid(refused: DaemonError) -> InvalidParamsError:
    field = _INVALID[refused.reason]
    problem = refused.metadata.get("problem", refused.message)
    if refused.violations:
        first = refused.violations[0]
        field, problem = field or field_name(first.field), first.description or problem
    return invalid(field or "params", problem)


def _wrong_state(refused: DaemonError) -> A2AError:
    data = {
        name: refused.metadata[name] for name in ("state", "attempted") if name in refused.metadata
    }
    if data.get("attempted") == "cancel":
        return TaskNotCancelableError(
            f"the task is {data.get('state', 'terminal')} and cannot be canceled", data=data
        )
    return UnsupportedOperationError(refused.message, data=data)


def field_name(name: str) -> str:
    """The name on this wire of a field of the daemon's contract."""
    if name in _FIELDS:
        return _FIELDS[name]
    return _SNAKE.sub(lambda match: match[1].upper(), name)
