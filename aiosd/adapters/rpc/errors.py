"""The one table from refusals to gRPC status, and the rich details that go with each."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from aiosd.adapters.rpc.unimplemented import NotImplementedYet
from aiosd.application import errors as application
from aiosd.application.ports import CommitUnknown, StoreFull
from aiosd.domain import errors as domain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

DOMAIN = "aiosd"
DETAILS = "grpc-status-details-bin"
_Code = grpc.StatusCode

#: Refusal type -> status. The nearest ancestor of a refusal decides; its `reason` goes along.
STATUS: dict[type[domain.Refusal], grpc.StatusCode] = {
    domain.Refusal: _Code.FAILED_PRECONDITION,
    domain.TaskStateInvalid: _Code.FAILED_PRECONDITION,
    domain.NotPausable: _Code.FAILED_PRECONDITION,
    domain.InputRejected: _Code.FAILED_PRECONDITION,
    domain.InterruptionMismatch: _Code.FAILED_PRECONDITION,
    domain.NotResolvable: _Code.FAILED_PRECONDITION,
    domain.ReportRefused: _Code.FAILED_PRECONDITION,
    domain.AuthRejected: _Code.PERMISSION_DENIED,
    domain.CredentialRefused: _Code.INVALID_ARGUMENT,
    domain.ArgumentInvalid: _Code.INVALID_ARGUMENT,
    application.NotFound: _Code.NOT_FOUND,
    application.MethodNotSupported: _Code.INVALID_ARGUMENT,
    application.OperationCursorAhead: _Code.OUT_OF_RANGE,
    application.ArgumentsRejected: _Code.FAILED_PRECONDITION,
    application.RequestIdConflict: _Code.ALREADY_EXISTS,
    application.CursorInvalid: _Code.INVALID_ARGUMENT,
    application.WebhookUrlRefused: _Code.INVALID_ARGUMENT,
    application.TooManyWebhooks: _Code.RESOURCE_EXHAUSTED,
    application.ArtifactTooLarge: _Code.OUT_OF_RANGE,
    application.QueueFull: _Code.RESOURCE_EXHAUSTED,
    application.RateLimited: _Code.RESOURCE_EXHAUSTED,
    application.Full: _Code.RESOURCE_EXHAUSTED,
    application.Unauthenticated: _Code.UNAUTHENTICATED,
    application.PermissionDenied: _Code.PERMISSION_DENIED,
    application.PauseUnanswered: _Code.DEADLINE_EXCEEDED,
    application.SessionLost: _Code.FAILED_PRECONDITION,
    application.Unavailable: _Code.UNAVAILABLE,
    NotImplementedYet: _Code.UNIMPLEMENTED,
}
#: Reasons after which the same call may be tried again, and after how many seconds.
RETRY_AFTER = {
    "QUEUE_FULL": 1,
    "RATE_LIMITED": 60,
    "OUTCOME_UNKNOWN": 1,
    "SHUTTING_DOWN": 1,
    "STARTING": 1,
    "STORE_FULL": 5,
}

log = logging.getLogger("aiosd.rpc")


class Status:
    """What a call is answered with instead of a response."""

    __slots__ = ("code", "message", "metadata", "reason")

    def __init__(
        self, code: grpc.StatusCode, reason: str, message: str, metadata: Mapping[str, str]
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = metadata

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """google.rpc.Status as trailing metadata."""
        details: list[Message] = [
            error_details_pb2.ErrorInfo(
                reason=self.reason, domain=DOMAIN, metadata=dict(self.metadata)
            )
        ]
        if self.code is _Code.INVALID_ARGUMENT and "field" in self.metadata:
            violation = error_details_pb2.BadRequest.FieldViolation(
                field=self.metadata["field"],
                description=self.metadata.get("problem", self.message),
            )
            details.append(error_details_pb2.BadRequest(field_violations=[violation]))
        if self.reason in RETRY_AFTER:
            delay = Duration()
            # The refusal may know better.
            known_ms = self.metadata.get("retry_after_ms", f"{RETRY_AFTER[self.reason]}000")
            delay.FromMilliseconds(int(known_ms))
            details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        packed = []
        for detail in details:
            wrapper = Any()
            wrapper.Pack(detail)
            packed.append(wrapper)
        status = status_pb2.Status(
            code=self.code.value[0],
            message=self.message,
            details=packed,
        )
        return ((DETAILS, status.SerializeToString()),)


def status_of(error: Exception) -> Status:
    """The status of anything that a handler raised; unknown errors leak no text (S-17, E14)."""
    if isinstance(error, domain.Refusal):
        for kind in type(error).__mro__:
            if kind in STATUS:
                return Status(STATUS[kind], error.reason, str(error), error.metadata)
    if isinstance(error, CommitUnknown):
        return status_of(application.OutcomeUnknown())
    if isinstance(error, StoreFull):
        return status_of(application.Full("the store is full"))
    incident = uuid.uuid4().hex
    log.error("rpc.internal_error incident=%s", incident, exc_info=error)
    return Status(
        _Code.INTERNAL, "INTERNAL", f"internal error, incident {incident}", {"incident": incident}
    )
