"""One task in the words of every wire: the cross-protocol table (wire.md 2.2; X43, Y01-Y06, Y17).

`ROWS` is the whole table. Each wire has one writer, made from its column; all read words through
`aiosd.spelling`, which takes both spellings of canceled. A2A writes its column from its own
enumeration (`gateway.a2a.words`); a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiosd.aios_wire import errors, words
from aiosd.api.v1 import operation_pb2, task_pb2
from aiosd.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

_State = task_pb2.TaskState
_Status = operation_pb2.OperationStatus


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a state of the daemon, for FAILED with the kind of failure, in every word.

    AIOS knows a rejection by its code (-32113), the daemon by its state.

    `reason` is the product's; for other failures it is what the failure itself says, and this word
    only when it says nothing.
    """

    state: task_pb2.TaskState.ValueType
    aios: str
    a2a: str
    openapi: str
    product: str
    reason: str = ""
    failure_code: int | None = None


ROWS: Final = (
    Row(_State.TASK_STATE_SUBMITTED, "pending", "TASK_STATE_SUBMITTED", "queued", "queued"),
    Row(_State.TASK_STATE_WORKING, "working", "TASK_STATE_WORKING", "running", "processing"),
    Row(
        _State.TASK_STATE_PAUSED, "paused", "TASK_STATE_WORKING", "running", "processing", "paused"
    ),
    Row(
        _State.TASK_STATE_INPUT_REQUIRED,
        *("input_required", "TASK_STATE_INPUT_REQUIRED", "input_required"),
        *("processing", "input_required"),
    ),
    Row(
        _State.TASK_STATE_AUTH_REQUIRED,
        *("auth_required", "TASK_STATE_AUTH_REQUIRED", "auth_required"),
        *("processing", "auth_required"),
    ),
    Row(
        _State.TASK_STATE_COMPLETED,
        *("completed", "TASK_STATE_COMPLETED", "completed", "completed"),
    ),
    Row(
        _State.TASK_STATE_FAILED,
        *("failed", "TASK_STATE_FAILED", "timeout", "failed", "timeout"),
        failure_code=errors.TIMEOUT.code,
    ),
    Row(_State.TASK_STATE_FAILED, "failed", "TASK_STATE_FAILED", "failed", "failed", "error"),
    Row(
        _State.TASK_STATE_REJECTED,
        *("failed", "TASK_STATE_REJECTED", "rejected", "failed", "rejected"),
    ),
    Row(_State.TASK_STATE_CANCELED, "canceled", "TASK_STATE_CANCELED", "canceled", "cancelled"),
)
_BY_STATE: Final = MappingProxyType({row.state: row for row in ROWS if row.failure_code is None})
_BY_FAILURE: Final = MappingProxyType(
    {row.failure_code: row for row in ROWS if row.failure_code is not None}
)

OPENAPI_STATUSES: Final = tuple(dict.fromkeys(row.openapi for row in ROWS))
"""The nine statuses of the OpenAPI wire (R148)."""
OPENAPI_TERMINAL: Final = frozenset({"completed", "failed", "canceled", "timeout", "rejected"})
PRODUCT_STATUSES: Final = ("queued", "processing", "completed", "failed", "cancelled")
"""The five statuses of the product, and the only ones that are ever written (R140, R143)."""
PRODUCT_TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Product:
    """The product's view of a task or of an operation. Empty texts are left out when written."""

    status: str
    reason: str = ""
    outcome_certainty: str = ""
    retry_policy: str = ""

    def members(self) -> dict[str, str]:
        """As every wire writes it."""
        found = {
            "status": self.status,
            "reason": self.reason,
            "outcome_certainty": self.outcome_certainty,
            "retry_policy": self.retry_policy,
        }
        return {name: word for name, word in found.items() if word}


_UNCERTAIN: Final = Product("failed", outcome_certainty="uncertain", retry_policy="manual_review")
LEGACY: Final[Mapping[str, Product]] = MappingProxyType(
    {
        "pending": Product("queued"),
        "running": Product("processing"),
        "succeeded": Product("completed"),
        "timeout": Product("failed", reason="timeout"),
        "uncertain": _UNCERTAIN,
        "canceled": Product("cancelled"),
    }
)
"""Words of older product records, for reading only (R142, Y02)."""


def read_product(word: str) -> Product | None:
    """A product status, one of the five or a legacy word; None for anything else (R142)."""
    known = spelled(word, PRODUCT_STATUSES)
    return Product(known) if known is not None else LEGACY.get(word)


def row_of(task: task_pb2.Task) -> Row:
    """The row of the table that a task is in. Raises KeyError rather than guess (R179)."""
    if task.state == _State.TASK_STATE_FAILED and task.HasField("failure"):
        return _BY_FAILURE.get(task.failure.code, _BY_STATE[task.state])
    return _BY_STATE[task.state]


def openapi_status(task: task_pb2.Task) -> str:
    """The status that the OpenAPI wire writes (R148)."""
    return row_of(task).openapi


def product(task: task_pb2.Task) -> Product:
    """The product's view of a task (R140-R146, R150, R151).

    A failure always has all three of reason, certainty and policy; what nobody can prove is
    uncertain (Y03), and that is always for a person to review (Y04).
    """
    row = row_of(task)
    if row.product == "completed":
        return Product(row.product, reason=task.result_reason)
    if row.product not in ("failed", "cancelled"):
        return Product(row.product, reason=row.reason)
    reason = row.reason
    if row.reason == "error" and task.failure.reason:
        reason = task.failure.reason
    certain = task.outcome in (task_pb2.OUTCOME_CERTAIN, task_pb2.OUTCOME_NOT_STARTED)
    if not certain:
        return Product(row.product, reason, "uncertain", "manual_review")
    if row.product == "cancelled":
        return Product(row.product, reason, "certain", "none")
    policy = words.ADVICE.get(task.retry_advice, "")
    if row.reason == "rejected" and not policy:
        policy = "none"
    elif task.outcome == task_pb2.OUTCOME_NOT_STARTED and row.reason != "rejected":
        policy = "resubmit"
    return Product(row.product, reason, "certain", policy or "none")


def openapi_states(word: str) -> list[task_pb2.TaskState.ValueType]:
    """The daemon's states among which tasks of an OpenAPI status are."""
    return list(dict.fromkeys(row.state for row in ROWS if row.openapi == word))


def product_states(word: str) -> list[task_pb2.TaskState.ValueType]:
    """The daemon's states among which tasks of a product status are."""
    return list(dict.fromkeys(row.state for row in ROWS if row.product == word))


OPERATIONS: Final[Mapping[int, Product]] = MappingProxyType(
    {
        _Status.OPERATION_STATUS_QUEUED: Product("queued"),
        _Status.OPERATION_STATUS_RUNNING: Product("processing"),
        _Status.OPERATION_STATUS_RUNTIME_COMMITTED: Product("processing"),
        _Status.OPERATION_STATUS_PROJECTION_PENDING: Product("processing"),
        _Status.OPERATION_STATUS_PROJECTION_BLOCKED: Product(
            "processing", reason="projection_blocked"
        ),
        _Status.OPERATION_STATUS_SUCCEEDED: Product("completed"),
        _Status.OPERATION_STATUS_FAILED: Product("failed", "error", "certain", "none"),
        _Status.OPERATION_STATUS_CANCELLED: Product("cancelled", "", "certain", "none"),
        _Status.OPERATION_STATUS_EXPIRED: Product("failed", "expired", "certain", "resubmit"),
        _Status.OPERATION_STATUS_OUTCOME_UNKNOWN: Product(
            "failed", "outcome_unknown", "uncertain", "manual_review"
        ),
    }
)
"""The product's view of runtime operations (Y13)."""


def operation_product(operation: operation_pb2.Operation) -> Product:
    """The product's view of an operation; a failure's policy is the one that its error says."""
    shown = OPERATIONS[operation.status]
    if operation.status == _Status.OPERATION_STATUS_FAILED and operation.HasField("error"):
        return Product("failed", "error", "certain", operation.error.retry_mode or "none")
    return shown
