"""What the daemon refuses, in this wire's codes: one table from reason to error (wire.md 1.11).

Only words that the daemon wrote on purpose pass through: its message and a few members of its
metadata. An unknown reason is an internal error with nothing but the reason.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiosd.aios_wire import errors, words
from aiosd.aios_wire.errors import AiosError, ErrorEntry
from gateway.daemon_channel import SHUTTING_DOWN, TIMED_OUT, UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.daemon_channel import DaemonError

ENTRIES: Final[Mapping[str, ErrorEntry]] = MappingProxyType(
    {
        "ARGUMENT_INVALID": errors.INVALID_PARAMS,
        "CAPABILITY_NOT_FOUND": errors.CAPABILITY_NOT_FOUND,
        "ARGUMENTS_REJECTED": errors.VALIDATION_FAILED,
        "QUEUE_FULL": errors.TASK_QUEUE_FULL,
        "RATE_LIMITED": errors.RATE_LIMITED,
        "REQUEST_ID_CONFLICT": errors.IDEMPOTENCY_CONFLICT,
        "TASK_NOT_FOUND": errors.TASK_NOT_FOUND,
        "NOT_PAUSABLE": errors.INVALID_TASK_STATE,
        "PAUSE_UNANSWERED": errors.TIMEOUT,
        "INPUT_REJECTED": errors.INVALID_INPUT,
        "INTERRUPTION_MISMATCH": errors.INVALID_INPUT,
        "CREDENTIAL_REFUSED": errors.INVALID_INPUT,
        "AUTH_REJECTED": errors.AUTH_FAILED,
        "ARTIFACT_NOT_FOUND": errors.ARTIFACT_NOT_FOUND,
        "SUBSCRIPTION_NOT_FOUND": errors.SUBSCRIPTION_NOT_FOUND,
        "SESSION_NOT_FOUND": errors.SESSION_NOT_FOUND,
        "SESSION_EXPIRED": errors.SESSION_EXPIRED,
        "CURSOR_INVALID": errors.INVALID_PARAMS,
        "WEBHOOK_URL_REFUSED": errors.INVALID_PARAMS,
        "TOO_MANY_WEBHOOKS": errors.RESOURCE_BUSY,
        "GRANT_NOT_FOUND": errors.INVALID_PARAMS,
        "UNAUTHENTICATED": errors.AUTH_FAILED,
        "PERMISSION_DENIED": errors.PERMISSION_DENIED,
        "STORE_FULL": errors.RESOURCE_BUSY,
        "NOT_IMPLEMENTED": errors.METHOD_NOT_FOUND,
    }
)
"""Every reason that is not a state's; all others are -32603."""

_FIELDS: Final = MappingProxyType(
    {
        "CURSOR_INVALID": "last_event_id",
        "WEBHOOK_URL_REFUSED": "webhook_url",
        "GRANT_NOT_FOUND": "token_id",
    }
)
_INTERNAL_DETAILS: Final = MappingProxyType(
    {
        UNAVAILABLE: "the task service is not running; ask again",
        SHUTTING_DOWN: "the task service is stopping; ask again",
        TIMED_OUT: "the task service did not answer in time; look at the task before repeating",
        "OUTCOME_UNKNOWN": "it is not known whether this took effect; ask again with the same "
        "idempotency key, or look first",
    }
)
_INTERNAL_REASONS: Final = MappingProxyType(
    {
        UNAVAILABLE: "daemon_unavailable",
        SHUTTING_DOWN: "daemon_unavailable",
        TIMED_OUT: "daemon_timed_out",
        "OUTCOME_UNKNOWN": "outcome_unknown",
    }
)
_PASSED_ON: Final = ("problem", "path", "field", "capability_id", "permission_level", "scope")
_NUMBERS: Final = ("limit", "window_seconds", "timeout_ms", "head")
# Durations of the contract are milliseconds on this wire.
_SPANS: Final = re.compile(r"(?:^|\.)(timeout|deadline|delay|wait|retry_delay)$")


def from_daemon(refused: DaemonError) -> AiosError:
    """The error of this wire for one of the daemon's."""
    if refused.reason == "TASK_STATE_INVALID":
        return _invalid_state(refused)
    entry = ENTRIES.get(refused.reason)
    if entry is None:
        return _internal(refused)
    data: dict[str, Any] = {"reason": refused.reason.lower()}
    data |= {name: refused.metadata[name] for name in _PASSED_ON if name in refused.metadata}
    data |= {
        name: int(text) for name in _NUMBERS if (text := refused.metadata.get(name, "")).isdecimal()
    }
    details = refused.message
    if refused.reason in _FIELDS:
        field = data["field"] = _FIELDS[refused.reason]
        if "problem" in data:
            details = f"{field} {data['problem']}"
    elif refused.violations:
        field = field_name(refused.violations[0].field)
        data["field"] = field
        details = f"{field} {refused.violations[0].description}"
    if refused.retry_after_ms is not None:
        data["retry_after_ms"] = refused.retry_after_ms
    if refused.reason == "NOT_PAUSABLE":
        data |= _state_data(refused) or {"attempted": "pause"}
    if refused.reason == "ARGUMENTS_REJECTED":
        data.setdefault("field", "arguments")
    if refused.reason == "NOT_IMPLEMENTED":
        details = "this method is not available on this server"
    return AiosError(entry, details, data=data)


def field_name(name: str) -> str:
    """The name on this wire of a field of the contract."""
    if name == "request_id":
        return "options.idempotency_key"
    return _SPANS.sub(lambda match: f"{match[0]}_ms", name)


def _invalid_state(refused: DaemonError) -> AiosError:
    data = _state_data(refused)
    status = data["current_status"]
    if status == "completed":
        entry, sentence = errors.TASK_ALREADY_COMPLETED, "the task has completed"
    elif status == "canceled":
        entry, sentence = errors.TASK_ALREADY_CANCELED, "the task was canceled"
    elif status == "input_required" and data["attempted"] == "resume":
        entry, sentence = errors.INPUT_REQUIRED, "the task waits for aios/task.input"
    else:
        entry = errors.INVALID_TASK_STATE
        sentence = f"a task that is {status} does not take {data['attempted'] or 'this call'}"
    return AiosError(entry, sentence, data=data)


def _state_data(refused: DaemonError) -> dict[str, Any]:
    """`current_status`, `attempted` and `allowed`, as every error of a state carries (R048)."""
    state = refused.metadata.get("state")
    if state is None:
        return {}
    allowed = [name for name in refused.metadata.get("allowed", "").split(",") if name]
    return {
        "current_status": words.status_of_name(state),
        "attempted": refused.metadata.get("attempted", ""),
        "allowed": list(dict.fromkeys(map(words.status_of_name, allowed))),
    }


def _internal(refused: DaemonError) -> AiosError:
    data: dict[str, Any] = {"reason": _INTERNAL_REASONS.get(refused.reason, "internal")}
    incident = refused.metadata.get("incident")
    if incident:
        data["incident"] = incident
    if refused.is_unavailable:
        data["retryable"] = True
    return AiosError(errors.INTERNAL_ERROR, _INTERNAL_DETAILS.get(refused.reason), data=data)


def task_failure(error: dict[str, Any], task_id: str) -> AiosError:
    """The failure of a task as the error of the call that waited for it."""
    data = dict(error["data"])
    entry = ErrorEntry(error["code"], error["message"], data.pop("error_id"))
    data["task_id"] = task_id
    return AiosError(entry, data=json.loads(json.dumps(data)))
