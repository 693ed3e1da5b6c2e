"""What the daemon and a provider say to each other about runtime operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# --- from the provider ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperationProgressed:
    """How far an operation is; `total` 0 means unknown."""

    phase: str
    current: int
    total: int


@dataclass(frozen=True, slots=True)
class EffectCommitted:
    """The effect happened; `state` is the whole new instance state, empty: unchanged."""

    state: str
    result: str | None


@dataclass(frozen=True, slots=True)
class OperationFailed:
    """The effect did not and will not happen."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class OperationCanceled:
    """Stopped before the effect."""


OperationSaid: TypeAlias = (
    OperationProgressed | EffectCommitted | OperationFailed | OperationCanceled
)


@dataclass(frozen=True, slots=True)
class OperationReport:
    """What an operation has to say; numbered per operation from 1 without gaps."""

    operation_id: str
    number: int
    said: OperationSaid


# --- to the provider ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunOperation:
    """An operation to run; `expire_time` 0 means no bound."""

    operation_id: str
    method: str
    params: str
    scope: str
    target_id: str
    expire_time: int


@dataclass(frozen=True, slots=True)
class CancelOperation:
    """Stop an operation if its effect has not happened."""

    operation_id: str


@dataclass(frozen=True, slots=True)
class OperationAck:
    """Reports up to a number are stored; why the newest state could not be projected, or empty."""

    operation_id: str
    up_to: int
    problem: str
