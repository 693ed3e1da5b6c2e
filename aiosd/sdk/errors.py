"""What the SDK raises.

AiosdError                    a call to the daemon did not succeed
  InvalidArgument             ARGUMENT_INVALID, CURSOR_INVALID, ...; `violations` name the fields
  NotFound                    TASK_NOT_FOUND, CAPABILITY_NOT_FOUND, ARTIFACT_NOT_FOUND, ...
  Conflict                    REQUEST_ID_CONFLICT: the key was used for another request
  Refused                     TASK_STATE_INVALID, NOT_PAUSABLE, ...; `metadata` has the state
  Exhausted                   QUEUE_FULL, RATE_LIMITED, STORE_FULL; `retry_after_ms`
  NotAuthenticated            the token is missing, wrong or expired
  NotPermitted                the caller may not do that
  TimedOut                    PAUSE_UNANSWERED, or the call's own deadline
  Unavailable                 no daemon, SHUTTING_DOWN, or OUTCOME_UNKNOWN
  Unimplemented               this daemon does not offer the call
  Internal                    a fault of the daemon; `metadata` has the incident id
ReportRefused                 the daemon refused a report of a running capability
TaskFailed, TaskRejected      raised by a capability: how its attempt ends
OperationFailed               raised by an operation: its effect will not happen
ProjectionBlocked             the state that an operation reported does not fit
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import grpc


class AiosdError(Exception):
    """A call to the daemon did not succeed.

    `code` is the gRPC status, `reason` the stable upper-case word of google.rpc.ErrorInfo (empty
    when the answer did not come from the daemon), `message` one sentence, `metadata` what
    ErrorInfo carried, `violations` pairs of field and problem, `retry_after_ms` the pause that
    the daemon asked for (None: it asked for none).
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str = "",
        message: str = "",
        metadata: dict[str, str] | None = None,
        violations: tuple[tuple[str, str], ...] = (),
        retry_after_ms: int | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = metadata or {}
        self.violations = violations
        self.retry_after_ms = retry_after_ms
        super().__init__(f"{reason or code.name}: {message}" if message else reason or code.name)


class InvalidArgument(AiosdError):
    """A field of the request is wrong."""


class NotFound(AiosdError):
    """There is no such thing, or the caller may not know of it."""


class Conflict(AiosdError):
    """The idempotency key was used for another request."""


class Refused(AiosdError):
    """The state of things does not allow it; nothing changed."""


class Exhausted(AiosdError):
    """A limit is reached."""


class NotAuthenticated(AiosdError):
    """The daemon does not know the caller."""


class NotPermitted(AiosdError):
    """The daemon knows the caller and says no."""


class TimedOut(AiosdError):
    """No answer in time."""


class Unavailable(AiosdError):
    """No daemon to talk to now; with OUTCOME_UNKNOWN the effect may have happened."""


class Unimplemented(AiosdError):
    """This daemon does not offer the call."""


class Internal(AiosdError):
    """A fault of the daemon."""


class ReportRefused(Exception):
    """The daemon refused a report of a running attempt; the report changed nothing.

    `reason`: ATTEMPT_FENCED, ARTIFACT_UNKNOWN, ARTIFACT_SEALED, CHUNK_CONFLICT, CHUNK_GAP,
    ARTIFACT_INCOMPLETE, REPORT_INVALID, TASK_STATE_INVALID or TASK_TERMINAL.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}" if message else reason)


class TaskFailed(Exception):
    """Raised by a capability: its attempt fails.

    `message` is one sentence for the client, never a secret. `code` is an AIOS error code.
    `retryable`: another attempt might succeed and a repetition is safe. `data` is a JSON object
    with details. `reason` is a stable lower-case word.
    """

    def __init__(
        self,
        message: str,
        code: int = -32603,
        retryable: bool = False,
        data: dict[str, Any] | None = None,
        reason: str = "error",
    ) -> None:
        self.message = message
        self.code = code
        self.retryable = retryable
        self.data = data
        self.reason = reason
        super().__init__(message)


class TaskRejected(Exception):
    """Raised by a capability or its screen: it declines the task.

    From a screen, nothing was executed and the offer is declined; later, the attempt ends.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class OperationFailed(Exception):
    """Raised by an operation: its effect did not and will not happen.

    `code` is one of the runtime operation codes; empty: RUNTIME_EXECUTION_FAILED.
    """

    def __init__(self, message: str, code: str = "") -> None:
        self.message = message
        self.code = code
        super().__init__(message)


class ProjectionBlocked(Exception):
    """The state that an operation reported does not fit; commit again with a corrected one."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)
