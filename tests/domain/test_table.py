"""The table of states: exactly its edges, for every command and every pair."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from aiosd.domain import lifecycle, waits
from aiosd.domain.errors import Refusal, TaskStateInvalid
from aiosd.domain.failure import Failure
from aiosd.domain.state import INTERRUPTED, TERMINAL, TRANSITIONS, TaskState, allowed
from tests.support.builders import a_draft, a_need, a_question, drive, reopen

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.domain.draft import Draft

S = TaskState

#: The edges as wire.md 1.7 numbers them; kept apart from the code's table on purpose.
DOCUMENTED = {
    (S.SUBMITTED, S.WORKING),
    (S.SUBMITTED, S.FAILED),
    (S.SUBMITTED, S.CANCELED),
    (S.WORKING, S.COMPLETED),
    (S.WORKING, S.FAILED),
    (S.WORKING, S.PAUSED),
    (S.WORKING, S.INPUT_REQUIRED),
    (S.WORKING, S.AUTH_REQUIRED),
    (S.WORKING, S.CANCELED),
    (S.PAUSED, S.WORKING),
    (S.PAUSED, S.CANCELED),
    (S.INPUT_REQUIRED, S.WORKING),
    (S.INPUT_REQUIRED, S.CANCELED),
    (S.AUTH_REQUIRED, S.WORKING),
    (S.AUTH_REQUIRED, S.CANCELED),
}
REJECTIONS = {(S.SUBMITTED, S.REJECTED), (S.WORKING, S.REJECTED)}
AIOS = [state for state in S if state is not S.REJECTED]
PAIRS = list(product(S, S))


@pytest.mark.req("R033", "R034", "X01", "X03")
def test_the_table_holds_the_fifteen_documented_edges_and_the_two_of_rejected() -> None:
    edges = {(state, target) for state, targets in TRANSITIONS.items() for target in targets}
    assert edges == DOCUMENTED | REJECTIONS
    assert len(AIOS) == 8


@pytest.mark.req("R035", "X02")
def test_forty_nine_pairs_of_the_eight_states_are_no_edges() -> None:
    refused = [pair for pair in product(AIOS, AIOS) if pair not in DOCUMENTED]
    assert len(refused) == 49
    assert not any(target in TRANSITIONS[state] for state, target in refused)


@pytest.mark.req("R034", "R035", "I08")
@pytest.mark.parametrize(("state", "target"), PAIRS)
def test_a_draft_takes_edges_and_refuses_all_other_pairs_unchanged(
    state: TaskState, target: TaskState
) -> None:
    draft = reopen(drive(a_draft(), state))
    before = draft.task
    if (state, target) in DOCUMENTED | REJECTIONS:
        draft.enter(target, "test")
        assert draft.task.state is target
        assert [change.state for change in draft.history] == [target]
        assert len(draft.events) == 1
        return
    with pytest.raises(TaskStateInvalid) as refusal:
        draft.enter(target, "test")
    assert draft.task is before
    assert not draft.events
    assert not draft.history
    assert not draft.revised
    assert refusal.value.metadata == {
        "state": state.word,
        "attempted": "test",
        "allowed": ",".join(one.word for one in allowed(state)),
    }


COMMANDS: dict[str, tuple[Callable[[Draft], object], set[TaskState]]] = {
    "cancel": (lambda draft: lifecycle.cancel(draft, ""), {S.CANCELED}),
    "pause": (lambda draft: waits.pause(draft, ""), {S.PAUSED}),
    "resume": (lambda draft: waits.resume(draft, "", slot=True), {S.WORKING}),
    "answer": (lambda draft: waits.answer(draft, "{}", "", slot=True), {S.WORKING}),
    "authorize": (lambda draft: waits.authorize(draft, "", "given", slot=True), {S.WORKING}),
    "ask": (lambda draft: waits.interrupt(draft, a_question()), {S.INPUT_REQUIRED}),
    "need": (lambda draft: waits.interrupt(draft, a_need()), {S.AUTH_REQUIRED}),
    "complete": (lambda draft: lifecycle.complete(draft, "1"), {S.COMPLETED}),
    "fail": (lambda draft: lifecycle.fail(draft, Failure(-1, "no", "error")), {S.FAILED}),
    "reject": (lambda draft: lifecycle.reject(draft, "no"), {S.REJECTED}),
}
ALLOWED = {
    "cancel": {S.SUBMITTED, S.WORKING, S.PAUSED, S.INPUT_REQUIRED, S.AUTH_REQUIRED},
    "pause": {S.WORKING},
    "resume": {S.PAUSED},
    "answer": {S.INPUT_REQUIRED},
    "authorize": {S.AUTH_REQUIRED},
    "ask": {S.WORKING},
    "need": {S.WORKING},
    "complete": {S.WORKING},
    "fail": {S.WORKING},
    "reject": {S.SUBMITTED, S.WORKING},
}


@pytest.mark.req("R026", "R027", "R028", "R029", "R030", "R040", "R041", "R043", "R045", "R046")
@pytest.mark.req("R047", "R048", "R109", "R111", "X09", "Z27")
@pytest.mark.parametrize(("verb", "state"), list(product(COMMANDS, S)))
def test_each_command_works_exactly_where_it_may(verb: str, state: TaskState) -> None:
    draft = reopen(drive(a_draft(), state))
    before = draft.task
    command, targets = COMMANDS[verb]
    if state in ALLOWED[verb]:
        command(draft)
        assert draft.task.state in targets
        return
    with pytest.raises(Refusal):
        command(draft)
    assert draft.task is before
    assert not draft.events


@pytest.mark.req("R042", "R192", "I09")
@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_terminal_state_is_final(state: TaskState) -> None:
    assert allowed(state) == ()
    assert state in {S.COMPLETED, S.FAILED, S.CANCELED, S.REJECTED}


@pytest.mark.req("R178", "Z42")
def test_interrupted_states_are_those_that_wait_for_somebody() -> None:
    assert {S.INPUT_REQUIRED, S.AUTH_REQUIRED} == INTERRUPTED
    assert all(S.WORKING in TRANSITIONS[state] for state in INTERRUPTED)


@pytest.mark.req("X43")
def test_numbers_are_those_of_a2a_and_paused_is_added() -> None:
    assert {state.name: int(state) for state in S} == {
        "SUBMITTED": 1,
        "WORKING": 2,
        "COMPLETED": 3,
        "FAILED": 4,
        "CANCELED": 5,
        "INPUT_REQUIRED": 6,
        "REJECTED": 7,
        "AUTH_REQUIRED": 8,
        "PAUSED": 9,
    }
