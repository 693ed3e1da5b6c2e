"""The audit chain finds every way of tampering that leaves the key alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosd.domain.audit import AuditRecord, Head, SealedRecord, seal, sign_head, verify

KEY = b"k" * 32


def chain(count: int) -> list[SealedRecord]:
    head, sealed = Head(), []
    for number in range(1, count + 1):
        record = AuditRecord(number, "task.created", "uid:1000", task_id=f"task-{number}")
        sealed.append(seal(KEY, head, record))
        head = Head(number, sealed[-1].hash)
    return sealed


def end(sealed: list[SealedRecord]) -> Head:
    return Head(len(sealed), sealed[-1].hash)


@pytest.mark.req("R139", "S-32")
def test_a_chain_that_nobody_touched_is_intact() -> None:
    sealed = chain(7)
    finding = verify(KEY, sealed, end(sealed))
    assert finding.intact
    assert finding.count == 7


@pytest.mark.req("S-33")
def test_a_chain_may_have_grown_since_its_head_was_anchored() -> None:
    sealed = chain(7)
    assert verify(KEY, sealed, Head(4, sealed[3].hash)).intact


@pytest.mark.req("R139", "I43")
@pytest.mark.parametrize("member", ["time", "event", "principal", "details", "decision", "task_id"])
def test_an_edit_is_found_where_it_is(member: str) -> None:
    sealed = chain(7)
    edited = 1 if member == "time" else "other"
    record = replace(sealed[3].record, **{member: edited})
    sealed[3] = replace(sealed[3], record=record)
    finding = verify(KEY, sealed, end(sealed))
    assert (finding.broken_at, finding.problem) == (4, "record 4 was changed")


@pytest.mark.req("R139", "I43")
def test_a_cut_in_the_middle_is_found() -> None:
    sealed = chain(7)
    assert verify(KEY, sealed[:2] + sealed[3:], end(sealed)).broken_at == 3


@pytest.mark.req("R139", "I43")
def test_a_cut_that_numbers_anew_is_found() -> None:
    sealed = chain(7)
    renumbered = [replace(one, sequence=at) for at, one in enumerate(sealed[:2] + sealed[3:], 1)]
    assert verify(KEY, renumbered, None).broken_at == 3


@pytest.mark.req("R139", "I43")
def test_a_swap_is_found() -> None:
    sealed = chain(7)
    sealed[2], sealed[4] = sealed[4], sealed[2]
    assert not verify(KEY, sealed, end(sealed)).intact
    swapped = chain(7)
    swapped[2] = replace(swapped[2], record=swapped[4].record)
    assert verify(KEY, swapped, end(swapped)).broken_at == 3


@pytest.mark.req("R139", "S-33")
@pytest.mark.parametrize("kept", [0, 1, 6])
def test_a_cut_tail_is_found_by_the_anchor(kept: int) -> None:
    sealed = chain(7)
    finding = verify(KEY, sealed[:kept], end(sealed))
    assert not finding.intact
    assert finding.broken_at == kept + 1


@pytest.mark.req("S-33")
def test_a_missing_anchor_is_a_problem_as_soon_as_there_are_records() -> None:
    assert verify(KEY, [], None).intact
    assert not verify(KEY, chain(1), None).intact


@pytest.mark.req("S-32")
def test_a_chain_that_was_made_without_the_key_is_found() -> None:
    record = AuditRecord(1, "task.created", "mallory")
    forged = [seal(b"x" * 32, Head(), record)]
    assert verify(KEY, forged, None).broken_at == 1


@pytest.mark.req("S-33")
def test_an_anchor_cannot_be_made_from_the_records() -> None:
    sealed = chain(3)
    assert sign_head(KEY, end(sealed)) != sign_head(b"x" * 32, end(sealed))
    assert sign_head(KEY, Head(2, sealed[2].hash)) != sign_head(KEY, end(sealed))


@pytest.mark.req("S-32")
@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_no_text_can_flow_from_one_member_into_the_next(a: str, b: str, c: str) -> None:
    first = AuditRecord(1, a + b, c, decision="x")
    second = AuditRecord(1, a, b + c, decision="x")
    same = (a + b, c) == (a, b + c)
    assert (seal(KEY, Head(), first).hash == seal(KEY, Head(), second).hash) is same
