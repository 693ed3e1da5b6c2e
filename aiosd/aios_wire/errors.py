"""Every error of the AIOS wire: code, message, and the `error_id` that tells them apart.

The wire uses some numbers for several meanings, so a client reads `data.error_id` first (R103,
R104). The table is this wire's alone: the same numbers mean other things elsewhere, and no mapper
is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One row of the table. `error_id` is unique, `code` is not."""

    code: int
    message: str
    error_id: str


PARSE_ERROR: Final = ErrorEntry(-32700, "Parse error", "JSONRPC-PARSE")
INVALID_REQUEST: Final = ErrorEntry(-32600, "Invalid Request", "JSONRPC-INVALID-REQ")
METHOD_NOT_FOUND: Final = ErrorEntry(-32601, "Method not found", "JSONRPC-METHOD-NOT-FOUND")
INVALID_PARAMS: Final = ErrorEntry(-32602, "Invalid params", "JSONRPC-INVALID-PARAMS")
INTERNAL_ERROR: Final = ErrorEntry(-32603, "Internal error", "JSONRPC-INTERNAL")

PERMISSION_DENIED: Final = ErrorEntry(-32001, "Permission denied", "AIOS-PERM-DENIED")
AUTH_FAILED: Final = ErrorEntry(-32001, "Permission denied", "AIOS-AUTH-FAILED")
INPUT_REQUIRED: Final = ErrorEntry(-32002, "Input required", "AIOS-TASK-INPUT-REQUIRED")
USER_CANCELLED: Final = ErrorEntry(-32002, "User cancelled", "AIOS-USER-CANCELLED")
CAPABILITY_NOT_FOUND: Final = ErrorEntry(-32003, "Capability not found", "AIOS-CAP-NOT-FOUND")
ADAPTER_UNAVAILABLE: Final = ErrorEntry(-32004, "Adapter not available", "AIOS-ADAPTER-UNAVAIL")
AGENT_LOST: Final = ErrorEntry(-32004, "Adapter not available", "AIOS-AGENT-LOST")
TIMEOUT: Final = ErrorEntry(-32005, "Timeout", "AIOS-TIMEOUT")
TASK_QUEUE_FULL: Final = ErrorEntry(-32006, "Task queue full", "AIOS-TASK-QUEUE-FULL")
RATE_LIMITED: Final = ErrorEntry(-32006, "Rate limited", "AIOS-RATE-LIMITED")
RESOURCE_BUSY: Final = ErrorEntry(-32007, "Resource busy", "AIOS-RESOURCE-BUSY")
PLATFORM_UNSUPPORTED: Final = ErrorEntry(
    -32008, "Platform not supported", "AIOS-PLATFORM-UNSUPPORTED"
)
VERSION_MISMATCH: Final = ErrorEntry(-32009, "Version mismatch", "AIOS-VERSION-MISMATCH")
ALREADY_INITIALIZED: Final = ErrorEntry(-32009, "Already initialized", "AIOS-ALREADY-INITIALIZED")
NOT_INITIALIZED: Final = ErrorEntry(-32009, "Not initialized", "AIOS-NOT-INITIALIZED")
EXTENSION_REQUIRED: Final = ErrorEntry(-32009, "Required extension", "AIOS-EXTENSION-REQUIRED")
SANDBOX_VIOLATION: Final = ErrorEntry(-32010, "Sandbox violation", "AIOS-SANDBOX-VIOLATION")

COMPAT_NOT_RUNNING: Final = ErrorEntry(
    -32100, "Compat provider not running", "AIOS-COMPAT-NOT-RUNNING"
)
COMPAT_NOT_INSTALLED: Final = ErrorEntry(
    -32101, "Compat provider not installed", "AIOS-COMPAT-NOT-INSTALLED"
)
FILE_NOT_FOUND: Final = ErrorEntry(-32102, "File not found", "AIOS-FILE-NOT-FOUND")
INVALID_FILE_TYPE: Final = ErrorEntry(-32103, "Invalid file type", "AIOS-INVALID-FILE-TYPE")
SESSION_EXPIRED: Final = ErrorEntry(-32104, "Session expired", "AIOS-SESSION-EXPIRED")
SESSION_RECOVERY_FAILED: Final = ErrorEntry(
    -32104, "Session recovery failed", "AIOS-SESSION-RECOVERY-FAILED"
)
SESSION_NOT_FOUND: Final = ErrorEntry(-32105, "Session not found", "AIOS-SESSION-NOT-FOUND")
TASK_NOT_FOUND: Final = ErrorEntry(-32106, "Task not found", "AIOS-TASK-NOT-FOUND")
TASK_ALREADY_COMPLETED: Final = ErrorEntry(
    -32107, "Task already completed", "AIOS-TASK-ALREADY-COMPLETED"
)
TASK_ALREADY_CANCELED: Final = ErrorEntry(
    -32107, "Task already canceled", "AIOS-TASK-ALREADY-CANCELED"
)
INVALID_TASK_STATE: Final = ErrorEntry(-32108, "Invalid task state", "AIOS-TASK-INVALID-STATE")
INVALID_INPUT: Final = ErrorEntry(-32108, "Invalid input", "AIOS-TASK-INVALID-INPUT")
VALIDATION_FAILED: Final = ErrorEntry(-32108, "Validation failed", "AIOS-VALIDATION-FAILED")
DEPENDENCY_MISSING: Final = ErrorEntry(-32109, "Dependency missing", "AIOS-DEPENDENCY-MISSING")
ARTIFACT_NOT_FOUND: Final = ErrorEntry(-32110, "Artifact not found", "AIOS-ARTIFACT-NOT-FOUND")
SUBSCRIPTION_NOT_FOUND: Final = ErrorEntry(
    -32111, "Subscription not found", "AIOS-SUBSCRIPTION-NOT-FOUND"
)
IDEMPOTENCY_CONFLICT: Final = ErrorEntry(
    -32112, "Idempotency conflict", "AIOS-IDEMPOTENCY-CONFLICT"
)
TASK_REJECTED: Final = ErrorEntry(-32113, "Task rejected", "AIOS-TASK-REJECTED")
ARTIFACT_INCOMPLETE: Final = ErrorEntry(-32114, "Artifact incomplete", "AIOS-ARTIFACT-INCOMPLETE")

ERRORS: Final[Mapping[str, ErrorEntry]] = MappingProxyType(
    {entry.error_id: entry for entry in tuple(globals().values()) if isinstance(entry, ErrorEntry)}
)
"""Every entry above by its `error_id`."""


class AiosError(Exception):
    """An answer of this wire that is not a result.

    `details` says in a sentence what was wrong and names the field; `data` holds further members
    of `error.data` (a task's `current_status`, a limit). Both are sent, so neither may hold a
    secret or the text of an exception.
    """

    def __init__(
        self,
        entry: ErrorEntry,
        details: str | None = None,
        *,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{entry.error_id}: {details}" if details else entry.error_id)
        self.entry = entry
        self.details = details
        self.data: Mapping[str, Any] = MappingProxyType(dict(data or {}))


def error_object(error: AiosError, *, now_ms: int, trace_id: str) -> dict[str, Any]:
    """Render the `error` member: code, message, data{error_id, details?, timestamp, trace_id, ...}.

    `now_ms` is milliseconds since the epoch. The members that every error has win over `data`.
    """
    data: dict[str, Any] = dict(error.data)
    if error.details is not None:
        data["details"] = error.details
    data["error_id"] = error.entry.error_id
    data["timestamp"] = timestamp(now_ms)
    data["trace_id"] = trace_id
    return {"code": error.entry.code, "message": error.entry.message, "data": data}


def timestamp(now_ms: int) -> str:
    """Spell milliseconds since the epoch as RFC 3339 in UTC: `2026-01-31T12:00:00.000Z` (X48)."""
    seconds, milliseconds = divmod(now_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='seconds')}.{milliseconds:03d}Z"
