"""The life of a runtime operation: the table, and every walk through it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosd.api.v1 import operation_pb2
from aiosd.domain import operation_lifecycle as life
from aiosd.domain.errors import Refusal
from aiosd.domain.operation import (
    EDGES,
    TERMINAL,
    EffectState,
    EventType,
    OperationRequest,
    OperationStatus,
    ProjectionState,
    diagram,
)
from tests.support.operation_consistency import (
    CONSISTENT,
    FOLLOWS,
    TOLD_BY,
    check_log,
    check_snapshot,
    log_of,
    seen,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.domain.operation import Operation

S = OperationStatus
GRACE = 500


def submitted(expire_time: int = 0) -> life.OperationDraft:
    request = OperationRequest(
        "lab", "instance", "lab", "m", principal="me", create_time=1, expire_time=expire_time
    )
    return life.submit("op", request)


def walk(*commands: Callable[[life.OperationDraft], object], expire: int = 0) -> list[Operation]:
    """The operation after each command, each a change of its own; the log is checked."""
    draft = submitted(expire)
    operation, log, states = draft.operation, list(draft.events), []
    for now, command in enumerate(commands, start=1_000):
        draft = life.OperationDraft(operation, now)
        command(draft)
        operation = draft.operation
        log += draft.events
        states.append(operation)
        check_snapshot(seen(operation))
    check_log(log_of(log), complete=operation.terminal)
    return states


def start(draft: life.OperationDraft) -> None:
    life.start(draft, "session")


def commit(state: str = '{"n":1}') -> Callable[[life.OperationDraft], None]:
    return lambda draft: life.commit(draft, state, None)


def synced(draft: life.OperationDraft) -> None:
    life.synced(draft, 7)


def block(draft: life.OperationDraft) -> None:
    life.block(draft, "does not fit")


def cancel(draft: life.OperationDraft) -> None:
    life.cancel(draft, "me", "enough")


def late(draft: life.OperationDraft) -> None:
    draft.now = 10_000
    life.pass_time(draft, GRACE)


@pytest.mark.req("R162", "Y10", "Y11")
def test_the_ten_statuses_have_exactly_the_edges_of_the_rules() -> None:
    assert {status.word: {to.word for to in targets} for status, targets in EDGES.items()} == {
        status: FOLLOWS.get(status, set()) for status in CONSISTENT
    }
    assert {status.word for status in TERMINAL} == {
        *("succeeded", "failed", "cancelled", "expired", "outcome_unknown"),
    }


@pytest.mark.req("R162")
def test_numbers_and_words_are_those_of_the_contract() -> None:
    for kind, prefix, contract in (
        (OperationStatus, "OPERATION_STATUS_", operation_pb2.OperationStatus),
        (EffectState, "EFFECT_STATE_", operation_pb2.EffectState),
        (ProjectionState, "PROJECTION_STATE_", operation_pb2.ProjectionState),
    ):
        ours = {f"{prefix}{one.name}": one.value for one in kind}
        assert ours == {
            name: number for name, number in contract.items() if not name.endswith("UNSPECIFIED")
        }
    assert {one.value for one in EventType} == set(TOLD_BY)


@pytest.mark.req("R165", "Y10")
def test_nothing_leads_from_a_committed_effect_to_one_that_did_not_happen() -> None:
    committed = {S.RUNTIME_COMMITTED}
    while True:
        reached = committed | {to for status in committed for to in EDGES[status]}
        if reached == committed:
            break
        committed = reached
    assert not committed & {S.FAILED, S.CANCELLED, S.EXPIRED, S.OUTCOME_UNKNOWN}


@pytest.mark.req("R163")
def test_an_effect_is_committed_then_projected_then_the_operation_succeeds() -> None:
    states = walk(start, commit(), synced)
    assert [one.status for one in states] == [S.RUNNING, S.PROJECTION_PENDING, S.SUCCEEDED]
    assert states[-1].projection_revision == 7
    assert states[-1].reported_state == ""


@pytest.mark.req("R163")
def test_an_effect_without_a_new_state_has_nothing_to_project() -> None:
    (_, done) = walk(start, commit(""))
    assert (done.status, done.projection) == (S.SUCCEEDED, ProjectionState.NOT_APPLICABLE)


@pytest.mark.req("R164", "R165", "Y10")
def test_a_blocked_projection_recovers_by_a_corrected_state() -> None:
    states = walk(start, commit(), block, commit('{"n":2}'), synced)
    assert [one.status.word for one in states[2:]] == [
        *("projection_blocked", "projection_pending", "succeeded"),
    ]
    assert not states[2].terminal


@pytest.mark.req("R164", "Y10")
def test_a_blocked_projection_is_terminal_once_it_is_closed() -> None:
    *_, blocked, closed = walk(start, commit(), block, life.close)
    assert (blocked.terminal, closed.terminal) == (False, True)
    assert closed.effect is EffectState.COMMITTED
    for again in (life.close, cancel):
        with pytest.raises(Refusal):
            walk(start, commit(), block, life.close, again)
    assert walk(start, commit(), block, life.close, commit(), synced)[-1] == closed


@pytest.mark.req("R170", "Y14")
@pytest.mark.parametrize("after", [[commit()], [commit(), block], [commit(), synced]])
def test_cancel_after_the_commit_is_refused_and_changes_nothing(
    after: list[Callable[[life.OperationDraft], object]],
) -> None:
    before = walk(start, *after)[-1]
    draft = life.OperationDraft(before, 5_000)
    with pytest.raises(life.OperationNotCancellable) as refused:
        cancel(draft)
    assert refused.value.reason == "OPERATION_NOT_CANCELLABLE"
    assert (draft.operation, draft.events) == (before, [])


@pytest.mark.req("R170", "Y14")
def test_cancel_of_a_running_operation_is_a_request_and_no_result() -> None:
    *_, asked, again, done = walk(start, cancel, cancel, commit(""))
    assert (asked.status, asked.cancel_request is not None) == (S.RUNNING, True)
    assert again == asked
    assert done.status is S.SUCCEEDED
    assert walk(start, cancel, life.stopped)[-1].status is S.CANCELLED
    assert walk(cancel)[-1].status is S.CANCELLED


@pytest.mark.req("R166", "Y11")
def test_time_passing_in_the_queue_expires_and_in_flight_needs_proof() -> None:
    assert walk(late, expire=2_000)[-1].status is S.EXPIRED
    *_, asked, stopped = walk(start, late, life.stopped, expire=2_000)
    assert (asked.status, asked.expiring) == (S.RUNNING, True)
    assert stopped.status is S.EXPIRED
    assert walk(start, late, late, expire=2_000)[-1].status is S.OUTCOME_UNKNOWN
    assert walk(start, late, commit(), expire=2_000)[-1].status is S.PROJECTION_PENDING
    assert walk(start, commit(), late, expire=2_000)[-1].status is S.PROJECTION_PENDING


@pytest.mark.req("R167", "Y12")
def test_a_lost_session_leaves_the_outcome_unknown_unless_it_was_never_told() -> None:
    lost = walk(start, life.lose)[-1]
    assert lost.status is S.OUTCOME_UNKNOWN
    assert walk(start, lambda draft: life.lose(draft, given=False))[-1].status is S.FAILED
    assert walk(life.lose)[-1].status is S.QUEUED
    assert walk(start, commit(), life.lose)[-1].committed
    assert walk(start, life.lose, commit())[-1] == lost


@pytest.mark.req("R167")
def test_an_operation_is_given_to_one_session_only() -> None:
    draft = submitted()
    assert life.start(draft, "one")
    assert life.start(draft, "one")
    assert not life.start(draft, "two")
    assert [one.type for one in draft.events] == [EventType.STARTED]
    life.acknowledge(draft, 1)
    assert not life.start(draft, "one")


def test_the_page_about_operations_shows_the_table_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    assert f"```mermaid\n{diagram()}```\n" in page.read_text("utf-8")


COMMANDS: dict[str, Callable[[life.OperationDraft], object]] = {
    "start": start,
    "refuse": lambda draft: life.refuse_dispatch(draft, "METHOD_NOT_SUPPORTED", "gone"),
    "progress": lambda draft: life.progress(draft, "step", 1, 2),
    "commit": commit(),
    "commit nothing": commit(""),
    "fail": lambda draft: life.fail(draft, "", ""),
    "stopped": life.stopped,
    "synced": synced,
    "block": block,
    "cancel": cancel,
    "close": life.close,
    "late": late,
    "lose": life.lose,
    "lose untold": lambda draft: life.lose(draft, given=False),
}


@pytest.mark.req("R162", "R165", "R169")
@settings(max_examples=500)
@given(st.lists(st.sampled_from(sorted(COMMANDS)), max_size=14), st.sampled_from([0, 2_000]))
def test_no_order_of_commands_breaks_a_rule(names: list[str], expire: int) -> None:
    draft = submitted(expire)
    operation, log = draft.operation, list(draft.events)
    for now, name in enumerate(names, start=1_000):
        draft = life.OperationDraft(operation, now)
        try:
            COMMANDS[name](draft)
        except Refusal:
            assert draft.operation == operation
            continue
        after = draft.operation
        check_snapshot(seen(after))
        if operation.terminal:
            assert after == operation
        if operation.committed:
            assert after.committed
        assert after.revision == operation.revision + draft.revised
        operation, log = after, log + draft.events
    check_log(log_of(log), complete=operation.terminal)
