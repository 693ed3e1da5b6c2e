"""What an instance may say of an operation, and what it does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.application.operation_messages import (
    EffectCommitted,
    OperationCanceled,
    OperationFailed,
    OperationProgressed,
)
from aiosd.domain import operation_lifecycle as life
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.operation import OperationStatus

if TYPE_CHECKING:
    from aiosd.application.operation_messages import OperationReport
    from aiosd.domain.operation_lifecycle import OperationDraft


def take(draft: OperationDraft, session_id: str, report: OperationReport) -> bool:
    """Apply a report of the session that runs the operation; anything else changes nothing.

    True if the operation had succeeded before: another state is then news of the instance alone.
    Raises ArgumentInvalid for a number that leaves a gap.
    """
    operation = draft.operation
    if operation.holder != session_id or report.number <= operation.reports:
        return False
    if operation.terminal:  # nothing is stored any more, not even the number
        return operation.status is OperationStatus.SUCCEEDED
    if report.number != operation.reports + 1:
        raise ArgumentInvalid(
            "operation_report.number", f"expected {operation.reports + 1}, got {report.number}"
        )
    life.acknowledge(draft, report.number)
    match report.said:
        case OperationProgressed(phase, current, total):
            life.progress(draft, phase, current, total)
        case EffectCommitted(state, result):
            life.commit(draft, state, result)
        case OperationFailed(code, message):
            life.fail(draft, code, message)
        case OperationCanceled():
            life.stopped(draft)
    return False
