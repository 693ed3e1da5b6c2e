"""The words of this wire for the daemon's enumerations, both ways."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiosd.api.v1 import capability_pb2, event_pb2, interruption_pb2, permission_pb2, task_pb2
from aiosd.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

State = task_pb2.TaskState

_STATUS: Final[Mapping[task_pb2.TaskState.ValueType, str]] = MappingProxyType(
    {
        State.TASK_STATE_SUBMITTED: "pending",
        State.TASK_STATE_WORKING: "working",
        State.TASK_STATE_PAUSED: "paused",
        State.TASK_STATE_INPUT_REQUIRED: "input_required",
        State.TASK_STATE_AUTH_REQUIRED: "auth_required",
        State.TASK_STATE_COMPLETED: "completed",
        State.TASK_STATE_FAILED: "failed",
        # This wire has eight states: a declined task is a failed one with -32113 (X43).
        State.TASK_STATE_REJECTED: "failed",
        State.TASK_STATE_CANCELED: "canceled",
    }
)
STATUSES: Final = tuple(dict.fromkeys(_STATUS.values()))
"""The eight statuses (R033)."""
TERMINAL: Final = ("completed", "failed", "canceled")
TERMINAL_STATES: Final = frozenset(state for state, word in _STATUS.items() if word in TERMINAL)
INTERRUPTED_STATES: Final = frozenset(
    {State.TASK_STATE_INPUT_REQUIRED, State.TASK_STATE_AUTH_REQUIRED}
)

# How the daemon's errors spell a state.
_STATUS_OF_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {State.Name(state).removeprefix("TASK_STATE_").lower(): word for state, word in _STATUS.items()}
)


def status(state: task_pb2.TaskState.ValueType) -> str:
    """The status that this wire shows for a state."""
    return _STATUS.get(state, "pending")


def status_of_name(name: str) -> str:
    """The status for the lower-case name of a state, as errors of the daemon carry it."""
    return _STATUS_OF_NAME.get(name, name)


def states(words: Iterable[str]) -> list[task_pb2.TaskState.ValueType]:
    """The states that statuses of a filter select; both spellings of canceled are read (X44)."""
    wanted = {spelled(word, STATUSES) for word in words}
    return [state for state, word in _STATUS.items() if word in wanted]


PRIORITIES: Final[Mapping[str, task_pb2.Priority.ValueType]] = MappingProxyType(
    {
        "low": task_pb2.PRIORITY_LOW,
        "normal": task_pb2.PRIORITY_NORMAL,
        "high": task_pb2.PRIORITY_HIGH,
        "urgent": task_pb2.PRIORITY_URGENT,
    }
)
_PRIORITY: Final = {value: word for word, value in PRIORITIES.items()}


def priority(value: task_pb2.Priority.ValueType) -> str:
    """The word of a priority."""
    return _PRIORITY.get(value, "normal")


OUTCOMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        task_pb2.OUTCOME_CERTAIN: "certain",
        task_pb2.OUTCOME_NOT_STARTED: "not_started",
        task_pb2.OUTCOME_UNCERTAIN: "uncertain",
    }
)
ADVICE: Final[Mapping[int, str]] = MappingProxyType(
    {
        task_pb2.RETRY_ADVICE_NONE: "none",
        task_pb2.RETRY_ADVICE_RESUBMIT: "resubmit",
        task_pb2.RETRY_ADVICE_RESUME: "resume",
        task_pb2.RETRY_ADVICE_MANUAL_REVIEW: "manual_review",
    }
)

AUTH_TYPES: Final[Mapping[str, interruption_pb2.AuthType.ValueType]] = MappingProxyType(
    {
        "oauth2": interruption_pb2.AUTH_TYPE_OAUTH2,
        "api_key": interruption_pb2.AUTH_TYPE_API_KEY,
        "password": interruption_pb2.AUTH_TYPE_PASSWORD,
        "certificate": interruption_pb2.AUTH_TYPE_CERTIFICATE,
        "approval": interruption_pb2.AUTH_TYPE_APPROVAL,
    }
)
_AUTH_TYPE: Final = {value: word for word, value in AUTH_TYPES.items()}


def auth_type(value: interruption_pb2.AuthType.ValueType) -> str:
    """The word of a sort of authorization."""
    return _AUTH_TYPE.get(value, "")


LEVELS: Final[Mapping[str, capability_pb2.PermissionLevel.ValueType]] = MappingProxyType(
    {
        "public": capability_pb2.PERMISSION_LEVEL_PUBLIC,
        "low": capability_pb2.PERMISSION_LEVEL_LOW,
        "medium": capability_pb2.PERMISSION_LEVEL_MEDIUM,
        "high": capability_pb2.PERMISSION_LEVEL_HIGH,
        "critical": capability_pb2.PERMISSION_LEVEL_CRITICAL,
    }
)
_LEVEL: Final = {value: word for word, value in LEVELS.items()}


def level(value: capability_pb2.PermissionLevel.ValueType) -> str:
    """The word of a permission level."""
    return _LEVEL.get(value, "")


DURATIONS: Final[Mapping[str, permission_pb2.GrantDuration.ValueType]] = MappingProxyType(
    {
        "once": permission_pb2.GRANT_DURATION_ONCE,
        "task": permission_pb2.GRANT_DURATION_TASK,
        "session": permission_pb2.GRANT_DURATION_SESSION,
        "timed": permission_pb2.GRANT_DURATION_TIMED,
        "persistent": permission_pb2.GRANT_DURATION_PERSISTENT,
    }
)
_DURATION: Final = {value: word for word, value in DURATIONS.items()}


def grant_duration(value: permission_pb2.GrantDuration.ValueType) -> str:
    """The word of a grant's life."""
    return _DURATION.get(value, "")


LOG_LEVELS: Final[Mapping[int, str]] = MappingProxyType(
    {
        event_pb2.LOG_LEVEL_DEBUG: "DEBUG",
        event_pb2.LOG_LEVEL_INFO: "INFO",
        event_pb2.LOG_LEVEL_WARN: "WARN",
        event_pb2.LOG_LEVEL_ERROR: "ERROR",
        event_pb2.LOG_LEVEL_FATAL: "FATAL",
    }
)

_FAMILIES: Final = (
    ("status", event_pb2.EVENT_FAMILY_STATUS),
    ("progress", event_pb2.EVENT_FAMILY_PROGRESS),
    ("artifact", event_pb2.EVENT_FAMILY_ARTIFACT),
    ("log", event_pb2.EVENT_FAMILY_LOG),
)
_COMPANIONS: Final = ("input_required", "auth_required", "result", "error")

EVENT_NAMES: Final[Mapping[str, event_pb2.EventFamily.ValueType]] = MappingProxyType(
    {
        prefix + word: family
        for prefix in ("", "task.")
        for word, family in (
            *_FAMILIES,
            *((companion, event_pb2.EVENT_FAMILY_STATUS) for companion in _COMPANIONS),
        )
    }
)
"""What a subscriber may name, and the family that it selects (X14)."""
WEBHOOK_EVENT_NAMES: Final = (*EVENT_NAMES, "completed", "failed", "canceled", "cancelled")
"""What a webhook may name beside: statuses are filters on task.status (X20)."""


def families(names: Iterable[str] | None) -> list[event_pb2.EventFamily.ValueType]:
    """The families that names select, all of this wire's when there are none (R062)."""
    selected = {EVENT_NAMES[name] for name in names or ()}
    return [family for _, family in _FAMILIES if not selected or family in selected]
