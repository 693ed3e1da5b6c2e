"""The cross-protocol table row by row, written from wire.md 2.2 and not from the code."""

from __future__ import annotations

import pytest
from a2a.types import a2a_pb2

from aiosd.aios_wire import words as aios_words
from aiosd.api.v1 import failure_pb2, operation_pb2, task_pb2
from gateway import projection
from gateway.a2a import words as a2a_words

FAILED = "TASK_STATE_FAILED"
TABLE = [
    ("SUBMITTED", 0, "pending", "TASK_STATE_SUBMITTED", "queued", "queued", ""),
    ("WORKING", 0, "working", "TASK_STATE_WORKING", "running", "processing", ""),
    ("PAUSED", 0, "paused", "TASK_STATE_WORKING", "running", "processing", "paused"),
    *(
        (name.upper(), 0, name, f"TASK_STATE_{name.upper()}", name, "processing", name)
        for name in ("input_required", "auth_required")
    ),
    ("COMPLETED", 0, "completed", "TASK_STATE_COMPLETED", "completed", "completed", ""),
    ("FAILED", -32005, "failed", FAILED, "timeout", "failed", "timeout"),
    ("REJECTED", -32113, "failed", "TASK_STATE_REJECTED", "rejected", "failed", "rejected"),
    ("FAILED", -32603, "failed", FAILED, "failed", "failed", "error"),
    ("CANCELED", 0, "canceled", "TASK_STATE_CANCELED", "canceled", "cancelled", ""),
]


def task(state: str, code: int, **members: object) -> task_pb2.Task:
    made = task_pb2.Task(state=task_pb2.TaskState.Value(f"TASK_STATE_{state}"), **members)
    if code:
        made.failure.CopyFrom(failure_pb2.Failure(code=code, message="m"))
    return made


@pytest.mark.req("R140", "R148", "R150", "R151", "R152", "R153", "R154", "R156", "R171")
@pytest.mark.parametrize(("state", "code", "aios", "a2a", "openapi", "product", "reason"), TABLE)
def test_a_row_holds_on_every_wire(
    state: str, code: int, aios: str, a2a: str, openapi: str, product: str, reason: str
) -> None:
    given = task(state, code, outcome=task_pb2.OUTCOME_CERTAIN)
    row = projection.row_of(given)
    assert (row.aios, row.a2a, row.openapi, row.product) == (aios, a2a, openapi, product)
    shown = projection.product(given)
    assert (shown.status, shown.reason) == (product, reason)
    assert aios_words.status(given.state) == aios
    assert a2a_pb2.TaskState.Name(a2a_words.state(given.state)) == a2a


def test_the_table_has_no_row_but_these() -> None:
    words = [(row.aios, row.a2a, row.openapi, row.product, row.reason) for row in projection.ROWS]
    assert sorted(words) == sorted(row[2:] for row in TABLE)


@pytest.mark.req("R141")
def test_three_product_statuses_are_terminal() -> None:
    assert {"completed", "failed", "cancelled"} == projection.PRODUCT_TERMINAL
    assert set(projection.PRODUCT_STATUSES) - projection.PRODUCT_TERMINAL == {
        "queued",
        "processing",
    }


@pytest.mark.req("R142", "R172")
@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pending", "queued"),
        ("running", "processing"),
        ("succeeded", "completed"),
        ("timeout", "failed"),
        ("uncertain", "failed"),
        ("canceled", "cancelled"),
        *((word, word) for word in ("queued", "processing", "completed", "failed", "cancelled")),
    ],
)
def test_a_word_is_read_as_one_of_the_five(word: str, status: str) -> None:
    read = projection.read_product(word)
    assert read is not None
    assert read.status == status
    if word == "timeout":
        assert read.reason == "timeout"
    if word == "uncertain":
        assert (read.outcome_certainty, read.retry_policy) == ("uncertain", "manual_review")
    assert projection.read_product("working") is None


@pytest.mark.req("R144", "R146")
@pytest.mark.parametrize(
    ("outcome", "advice", "certainty", "policy"),
    [
        ("UNSPECIFIED", "UNSPECIFIED", "uncertain", "manual_review"),
        ("UNCERTAIN", "NONE", "uncertain", "manual_review"),
        ("NOT_STARTED", "UNSPECIFIED", "certain", "resubmit"),
        ("CERTAIN", "NONE", "certain", "none"),
        ("CERTAIN", "RESUBMIT", "certain", "resubmit"),
        ("CERTAIN", "RESUME", "certain", "resume"),
    ],
)
def test_a_failure_has_certainty_and_policy(
    outcome: str, advice: str, certainty: str, policy: str
) -> None:
    given = task(
        "FAILED",
        -32603,
        outcome=task_pb2.Outcome.Value(f"OUTCOME_{outcome}"),
        retry_advice=task_pb2.RetryAdvice.Value(f"RETRY_ADVICE_{advice}"),
    )
    shown = projection.product(given)
    assert (shown.outcome_certainty, shown.retry_policy) == (certainty, policy)


def test_an_unknown_state_is_never_guessed() -> None:
    with pytest.raises(KeyError):
        projection.row_of(task_pb2.Task())


@pytest.mark.req("R168")
def test_every_operation_status_has_a_product_view() -> None:
    assert set(projection.OPERATIONS) == set(operation_pb2.OperationStatus.values()) - {0}
