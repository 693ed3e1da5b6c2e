"""The errors of this wire: one table from the daemon's reasons, one from the guards' (wire.md 2.3).

Only words that the daemon wrote on purpose pass through: its message and a few members of its
metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.daemon_channel import SHUTTING_DOWN, TIMED_OUT, UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.daemon_channel import DaemonError
    from gateway.refusals import Refusal

TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        429: "rate_limit_error",
        504: "timeout_error",
    }
)
"""`error.type` of a status; every other below 500 is invalid_request_error, above it api_error."""


@dataclass(slots=True)
class ApiError(Exception):
    """An answer that is not a success. `param` names the field."""

    status: int
    code: str
    message: str
    param: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    retry_after_s: int | None = None
    is_unauthenticated: bool = False

    def body(self, request_id: str) -> dict[str, Any]:
        """The envelope."""
        error: dict[str, Any] = {
            "type": type_of(self.status),
            "code": self.code,
            "message": self.message,
            "request_id": request_id,
        }
        if self.param:
            error["param"] = self.param
        if self.metadata:
            error["metadata"] = self.metadata
        return {"success": False, "error": error}


def type_of(status: int) -> str:
    """The family of a status."""
    return TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def invalid_param(param: str, problem: str) -> ApiError:
    """A 400 for one field; `problem` continues after its name."""
    return ApiError(400, "invalid_param", f"{param} {problem}", param)


_BUSY: Final = (429, "rate_limited")
_AWAY: Final = (503, "agent_service_unavailable")
_UNKNOWN: Final = (404, "agent_not_found")
_CONFLICT: Final = (409, "conflict")
_PARAM: Final = (400, "invalid_param")
REASONS: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "ARGUMENT_INVALID": _PARAM,
        "ARGUMENTS_REJECTED": _PARAM,
        "CREDENTIAL_REFUSED": _PARAM,
        "CURSOR_INVALID": _PARAM,
        "INPUT_REJECTED": _PARAM,
        "METHOD_NOT_SUPPORTED": (400, "METHOD_NOT_SUPPORTED"),
        "AUTH_REJECTED": (403, "forbidden"),
        "PERMISSION_DENIED": (403, "forbidden"),
        "UNAUTHENTICATED": (401, "unauthorized"),
        "CAPABILITY_NOT_FOUND": _UNKNOWN,
        "TASK_NOT_FOUND": _UNKNOWN,
        "INSTANCE_NOT_FOUND": _UNKNOWN,
        "OPERATION_NOT_FOUND": (404, "OPERATION_NOT_FOUND"),
        "INTERRUPTION_MISMATCH": _CONFLICT,
        "NOT_PAUSABLE": _CONFLICT,
        "NOT_RESOLVABLE": _CONFLICT,
        "REQUEST_ID_CONFLICT": _CONFLICT,
        "TASK_STATE_INVALID": _CONFLICT,
        "OPERATION_CURSOR_AHEAD": (409, "OPERATION_CURSOR_AHEAD"),
        "OPERATION_NOT_CANCELLABLE": (409, "OPERATION_NOT_CANCELLABLE"),
        "MESSAGE_TOO_LARGE": (413, "payload_too_large"),
        "QUEUE_FULL": _BUSY,
        "RATE_LIMITED": _BUSY,
        "OUTCOME_UNKNOWN": _AWAY,
        "STARTING": _AWAY,
        "STORE_FULL": _AWAY,
        SHUTTING_DOWN: _AWAY,
        UNAVAILABLE: _AWAY,
        TIMED_OUT: (504, "service_timeout"),
    }
)
"""Status and code of each reason; any other is a 500 internal_error."""

_PARAMS: Final = MappingProxyType(
    {
        "ARGUMENTS_REJECTED": "arguments",
        "CAPABILITY_NOT_FOUND": "capability_id",
        "CREDENTIAL_REFUSED": "input",
        "CURSOR_INVALID": "since",
        "INPUT_REJECTED": "input",
        "METHOD_NOT_SUPPORTED": "method",
        "REQUEST_ID_CONFLICT": "idempotency_key",
    }
)
_FIELDS: Final = MappingProxyType(
    {
        "request_id": "idempotency_key",
        "options.deadline": "deadline_ms",
        "deadline": "deadline_ms",
        "page_token": "cursor",
        "page_size": "limit",
        "after_sequence": "since",
    }
)
"""Names of this wire for fields of the contract."""
_PASSED_ON: Final = ("problem", "path", "capability_id", "permission_level", "scope")
_NUMBERS: Final = ("limit", "window_seconds", "head")
_MESSAGES: Final = MappingProxyType(
    {
        UNAVAILABLE: "the task service is not running; ask again",
        SHUTTING_DOWN: "the task service is stopping; ask again",
        TIMED_OUT: "the task service did not answer in time; look before repeating",
        "OUTCOME_UNKNOWN": "it is not known whether this took effect; ask again with the same "
        "idempotency key, or look first",
    }
)


def from_daemon(refused: DaemonError) -> ApiError:
    """The error of this wire for one of the daemon's."""
    reason = refused.reason
    known = REASONS.get(reason)
    if known is None:
        incident = refused.metadata.get("incident")
        return ApiError(
            500,
            "internal_error",
            "the request failed inside the service",
            metadata={"incident": incident} if incident else {},
        )
    status, code = known
    metadata: dict[str, Any] = {"reason": reason.lower()}
    metadata |= {name: refused.metadata[name] for name in _PASSED_ON if name in refused.metadata}
    metadata |= {
        name: int(text) for name in _NUMBERS if (text := refused.metadata.get(name, "")).isdecimal()
    }
    message = _MESSAGES.get(reason, refused.message)
    param = _PARAMS.get(reason, "")
    if refused.violations and reason not in _PARAMS:
        violation = refused.violations[0]
        param = _FIELDS.get(violation.field, violation.field)
        message = f"{param} {violation.description}"
    if reason == "OPERATION_CURSOR_AHEAD":
        metadata = {
            "operationId": refused.metadata.get("operation_id", ""),
            "cursor": refused.metadata.get("cursor", ""),
            "lastSequence": refused.metadata.get("last_sequence", ""),
        }
    if "state" in refused.metadata:
        metadata["state"] = refused.metadata["state"]
        metadata["attempted"] = refused.metadata.get("attempted", "")
    retry_after_s = None
    if status in (429, 503):
        retry_after_s = max(1, -(-(refused.retry_after_ms or 1000) // 1000))
    return ApiError(
        status,
        code,
        message,
        param,
        metadata,
        retry_after_s,
        is_unauthenticated=refused.is_unauthenticated,
    )


_GUARD_CODES: Final = MappingProxyType(
    {
        400: "invalid_param",
        401: "unauthorized",
        403: "forbidden",
        404: "not_found",
        405: "method_not_allowed",
        408: "request_timeout",
        413: "payload_too_large",
        415: "invalid_body",
        421: "forbidden",
        429: "rate_limited",
        500: "internal_error",
        503: "agent_service_unavailable",
    }
)


def render_refusal(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """A refusal of the guards in the envelope of this wire."""
    code = _GUARD_CODES.get(refusal.status, refusal.reason)
    error = ApiError(refusal.status, code, refusal.message, metadata={"reason": refusal.reason})
    return error.body(request_id)
