"""Failure, outcome and advice as data (R197, Y03-Y06), and every failure that the daemon makes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum


class FailureClass(IntEnum):
    """The six classes of R197."""

    PROTOCOL_ERROR = 1
    AUTH_ERROR = 2
    TASK_REJECTED = 3
    TASK_FAILED = 4
    DELIVERY_FAILED = 5
    RESULT_UNACCEPTABLE = 6


class Outcome(IntEnum):
    """What is known about the effects of a task that ended."""

    CERTAIN = 1
    NOT_STARTED = 2
    UNCERTAIN = 3


class RetryAdvice(IntEnum):
    """What a caller may do about a failed task (Y04)."""

    NONE = 1
    RESUBMIT = 2
    RESUME = 3
    MANUAL_REVIEW = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task or an attempt failed; `code` is the AIOS error code, `data` JSON object text."""

    code: int
    message: str
    reason: str
    failure_class: FailureClass = FailureClass.TASK_FAILED
    data: str = ""
    retryable: bool = False


#: Codes whose failures may be repeated when the provider did not say (AF:216).
RETRYABLE_CODES = frozenset({-32005, -32007})

INTERNAL = -32603
PERMISSION_DENIED = -32001
AGENT_LOST = -32004
TIMEOUT = -32005
REJECTED = -32113
ARTIFACT_INCOMPLETE = -32114


def _data(**members: object) -> str:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def timed_out(capability_id: str, timeout_ms: int, elapsed_ms: int) -> Failure:
    """Working time is used up (R095, X28)."""
    data = _data(capability_id=capability_id, timeout_ms=timeout_ms, elapsed_ms=elapsed_ms)
    return Failure(TIMEOUT, "Timeout", "timeout", data=data)


def deadline_passed(capability_id: str, deadline_ms: int, elapsed_ms: int) -> Failure:
    """The wall-clock deadline from creation passed (design.md 16)."""
    data = _data(
        reason="deadline",
        capability_id=capability_id,
        timeout_ms=deadline_ms,
        elapsed_ms=elapsed_ms,
    )
    return Failure(TIMEOUT, "Timeout", "timeout", data=data)


def wait_expired(waiting_for: str, capability_id: str, timeout_ms: int, elapsed_ms: int) -> Failure:
    """Nobody answered in time (X04, design.md 15); `waiting_for` is input, auth or approval."""
    data = _data(
        reason="wait_expired",
        waiting_for=waiting_for,
        capability_id=capability_id,
        timeout_ms=timeout_ms,
        elapsed_ms=elapsed_ms,
    )
    failure_class = FailureClass.TASK_FAILED if waiting_for == "input" else FailureClass.AUTH_ERROR
    return Failure(TIMEOUT, "Timeout", "wait_expired", failure_class, data)


def agent_lost(capability_id: str, attempt: int) -> Failure:
    """The provider of an attempt is gone (design.md 15)."""
    data = _data(
        reason="agent_lost",
        outcome_certainty="uncertain",
        retry_policy="manual_review",
        capability_id=capability_id,
        attempt=attempt,
    )
    return Failure(AGENT_LOST, "Provider lost", "agent_lost", data=data)


def rejected(why: str) -> Failure:
    """Declined (X43)."""
    return Failure(
        REJECTED,
        "Task rejected",
        "rejected",
        FailureClass.TASK_REJECTED,
        _data(reason="rejected", details=why),
    )


def artifact_incomplete(artifact_ids: tuple[str, ...]) -> Failure:
    """Completion was reported while an artifact never saw its last chunk (Z35)."""
    return Failure(
        ARTIFACT_INCOMPLETE,
        "Artifact incomplete",
        "artifact_incomplete",
        FailureClass.PROTOCOL_ERROR,
        _data(reason="artifact_incomplete", artifact_ids=list(artifact_ids)),
    )


def permission_denied(why: str, details: dict[str, object]) -> Failure:
    """A permission was refused (R121)."""
    return Failure(
        PERMISSION_DENIED,
        "Permission denied",
        why,
        FailureClass.AUTH_ERROR,
        _data(reason=why, **details),
    )
