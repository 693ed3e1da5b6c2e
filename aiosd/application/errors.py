"""Refusals that need the store, the clock or the caller to be known. Domain rules raise their own.

Refusal (domain)
├── NotFound: TaskNotFound, CapabilityNotFound, ArtifactNotFound, SubscriptionNotFound,
│   InstanceNotFound, OperationNotFound, WebhookNotFound, DeliveryNotFound,
│   GrantNotFound, TokenNotFound
├── RateLimited
├── WebhookUrlRefused, TooManyWebhooks
├── MethodNotSupported, OperationCursorAhead
├── ArgumentsRejected, RequestIdConflict, CursorInvalid, ArtifactTooLarge
├── QueueFull, Full
├── Unauthenticated, PermissionDenied
├── PauseUnanswered
├── SessionLost
└── Unavailable: OutcomeUnknown, Starting, ShuttingDown
"""

from __future__ import annotations

from aiosd.domain.errors import Refusal


class NotFound(Refusal):
    """Absent, or another's: the two look alike (S-18)."""

    reason = "NOT_FOUND"


class TaskNotFound(NotFound):
    """No such task for this caller."""

    reason = "TASK_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("task not found")


class CapabilityNotFound(NotFound):
    """No provider ever offered it."""

    reason = "CAPABILITY_NOT_FOUND"


class ArtifactNotFound(NotFound):
    """No such artifact for this caller."""

    reason = "ARTIFACT_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("artifact not found")


class SubscriptionNotFound(NotFound):
    """No such subscription for this caller."""

    reason = "SUBSCRIPTION_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("subscription not found")


class InstanceNotFound(NotFound):
    """No provider ever attached as it."""

    reason = "INSTANCE_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("instance not found")


class OperationNotFound(NotFound):
    """No such operation for this caller."""

    reason = "OPERATION_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("operation not found")


class MethodNotSupported(Refusal):
    """The instance does not accept this method."""

    reason = "METHOD_NOT_SUPPORTED"


class OperationCursorAhead(Refusal):
    """The cursor is ahead of the operation's log (wire.md 2.3)."""

    reason = "OPERATION_CURSOR_AHEAD"


class WebhookNotFound(NotFound):
    """No such webhook of this task."""

    reason = "WEBHOOK_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("webhook not found")


class DeliveryNotFound(NotFound):
    """No such delivery for this caller."""

    reason = "DELIVERY_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("delivery not found")


class GrantNotFound(NotFound):
    """No such grant for this caller."""

    reason = "GRANT_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("grant not found")


class TokenNotFound(NotFound):
    """No such access token."""

    reason = "TOKEN_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("token not found")


class RateLimited(Refusal):
    """Too many of these from one peer or principal; nothing was done (S-10, S-20)."""

    reason = "RATE_LIMITED"


class WebhookUrlRefused(Refusal):
    """The guard does not let a webhook there (S-22); the message says why."""

    reason = "WEBHOOK_URL_REFUSED"

    def __init__(self, problem: str) -> None:
        super().__init__(f"url: {problem}", {"field": "url", "problem": problem})


class SecretLost(Refusal):
    """The key that sealed it is gone; there is no way around that (S-28)."""

    reason = "SECRET_LOST"

    def __init__(self) -> None:
        super().__init__("the secrets cannot be opened with the present key; register it again")


class TooManyWebhooks(Refusal):
    """The task has as many as it may have (S-20)."""

    reason = "TOO_MANY_WEBHOOKS"


class ArgumentsRejected(Refusal):
    """The arguments fail the capability's input schema (R014)."""

    reason = "ARGUMENTS_REJECTED"


class RequestIdConflict(Refusal):
    """The idempotency key stands for another request (I04)."""

    reason = "REQUEST_ID_CONFLICT"


class CursorInvalid(Refusal):
    """The cursor is ahead of the log (R078)."""

    reason = "CURSOR_INVALID"


class ArtifactTooLarge(Refusal):
    """It does not fit into one answer; stream it."""

    reason = "ARTIFACT_TOO_LARGE"


class QueueFull(Refusal):
    """max_queue_size is reached; no task was made (R093)."""

    reason = "QUEUE_FULL"


class Full(Refusal):
    """The store has no room; nothing was done (I07)."""

    reason = "STORE_FULL"


class Unauthenticated(Refusal):
    """Missing, bad or expired credential; all three read alike (S-10)."""

    reason = "UNAUTHENTICATED"

    def __init__(self) -> None:
        super().__init__("a valid credential is required")


class PermissionDenied(Refusal):
    """Known, but without the scope."""

    reason = "PERMISSION_DENIED"


class PauseUnanswered(Refusal):
    """The provider did not come to a stop in time; the task goes on."""

    reason = "PAUSE_UNANSWERED"


class SessionLost(Refusal):
    """The session's lease ended; begin again with a new session id."""

    reason = "SESSION_LOST"

    def __init__(self) -> None:
        super().__init__("the session is over; attach with a new session_id")


class Unavailable(Refusal):
    """Not now; whether it had an effect is said by the subclass."""

    reason = "UNAVAILABLE"


class OutcomeUnknown(Unavailable):
    """The store failed at the commit: ask again with the same request_id (E17, I05)."""

    reason = "OUTCOME_UNKNOWN"

    def __init__(self) -> None:
        super().__init__("the outcome is not known; repeat with the same request_id")


class ShuttingDown(Unavailable):
    """The daemon stops; nothing was done."""

    reason = "SHUTTING_DOWN"

    def __init__(self) -> None:
        super().__init__("the daemon is stopping; try again")


class Starting(Unavailable):
    """The daemon is still recovering; nothing was done."""

    reason = "STARTING"

    def __init__(self) -> None:
        super().__init__("the daemon is starting; try again")


class ClientSessionNotFound(NotFound):
    """No such client session for this caller."""

    reason = "SESSION_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("session not found")


class ClientSessionExpired(Refusal):
    """The client session ended by time."""

    reason = "SESSION_EXPIRED"

    def __init__(self) -> None:
        super().__init__("the session has expired")
