"""The rules of posting: transitions, schedule, budget, filters."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosd.domain.content import LogLine, Progress
from aiosd.domain.event import Event, EventFamily, ResultStored, StatusChanged
from aiosd.domain.state import TaskState
from aiosd.domain.webhook import (
    BREAKER_FAILURES,
    DELIVERY_TRANSITIONS,
    FILTER_WORDS,
    SCHEDULE_MS,
    Answer,
    Breaker,
    Delivery,
    DeliveryNotDead,
    DeliveryState,
    Webhook,
    give_up,
    redeliver,
    settle,
    wants,
)

NOW = 1_800_000_000_000
WEBHOOK = Webhook("w", "t", "p", "https://a.example/", "https://a.example:443")
PACED = replace(WEBHOOK, max_retries=2, retry_delay_ms=100)
DELIVERY = Delivery("d", "w", "t", 1, "task.status", "https://a.example/", NOW, NOW, NOW)


def attempts(webhook: Webhook, answer: Answer, *, jitter: float = 0.0) -> list[Delivery]:
    """The delivery after each attempt until it is over, each at its due time."""
    delivery = DELIVERY
    after: list[Delivery] = []
    while delivery.state is DeliveryState.PENDING and len(after) < 100:
        delivery = settle(delivery, webhook, answer, now=delivery.next_time, jitter=jitter)
        after.append(delivery)
    return after


def status(state: TaskState) -> Event:
    return Event("t", 1, NOW, StatusChanged(state, TaskState.WORKING))


@pytest.mark.req("R129", "X22")
def test_a_retry_policy_means_one_attempt_and_its_retries_the_delay_apart() -> None:
    tried = attempts(PACED, Answer(500, "HTTP 500"))
    assert [one.attempts for one in tried] == [1, 2, 3]
    assert [one.next_time for one in tried] == [NOW + 100, NOW + 200, 0]
    assert tried[-1].state is DeliveryState.DEAD_LETTER
    assert {one.id for one in tried} == {"d"}


@pytest.mark.req("S-26", "I33")
def test_without_a_policy_the_pauses_grow_to_a_day_and_then_it_is_a_dead_letter() -> None:
    tried = attempts(WEBHOOK, Answer(503, "HTTP 503"))
    times = [NOW, *(one.next_time for one in tried[:-1])]
    assert tuple(b - a for a, b in pairwise(times)) == SCHEDULE_MS
    assert len(tried) == 1 + len(SCHEDULE_MS)
    assert tried[-1].state is DeliveryState.DEAD_LETTER


@pytest.mark.req("S-26")
@given(jitter=st.floats(-3, 3, allow_nan=False), failures=st.integers(1, 7))
def test_chance_moves_a_pause_by_a_fifth_at_most(jitter: float, failures: int) -> None:
    delivery = replace(DELIVERY, attempts=failures - 1)
    after = settle(delivery, WEBHOOK, Answer(500), now=NOW, jitter=jitter)
    planned = SCHEDULE_MS[failures - 1]
    assert 0.8 * planned <= after.next_time - NOW <= 1.2 * planned


@pytest.mark.req("S-26")
@pytest.mark.parametrize("code", [400, 401, 404, 422])
def test_a_refusal_that_no_repetition_cures_is_asked_three_times(code: int) -> None:
    tried = attempts(WEBHOOK, Answer(code, f"HTTP {code}"))
    assert len(tried) == 3
    assert tried[-1].state is DeliveryState.DEAD_LETTER


@pytest.mark.req("S-26")
@pytest.mark.parametrize("code", [408, 425, 429, 500, 302])
def test_what_may_pass_is_tried_with_the_whole_budget(code: int) -> None:
    assert len(attempts(WEBHOOK, Answer(code))) == 8


@pytest.mark.req("S-26")
def test_gone_ends_it_at_once_with_a_policy_too() -> None:
    for webhook in (WEBHOOK, PACED):
        tried = attempts(webhook, Answer(410, "HTTP 410"))
        assert [one.state for one in tried] == [DeliveryState.DEAD_LETTER]


@pytest.mark.req("S-26")
def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_more_than_a_day() -> None:
    asked = settle(DELIVERY, PACED, Answer(429, retry_after_ms=7_000), now=NOW, jitter=0)
    assert asked.next_time == NOW + 7_000
    far = settle(DELIVERY, PACED, Answer(429, retry_after_ms=10**12), now=NOW, jitter=0)
    assert far.next_time == NOW + 86_400_000


@pytest.mark.req("R129")
@pytest.mark.parametrize("code", range(200, 207))
def test_any_2xx_is_a_success(code: int) -> None:
    done = settle(DELIVERY, WEBHOOK, Answer(code), now=NOW, jitter=0)
    assert (done.state, done.next_time, done.attempts) == (DeliveryState.SUCCEEDED, 0, 1)


def test_a_dead_letter_that_is_asked_for_again_gets_its_whole_budget() -> None:
    dead = attempts(PACED, Answer(500))[-1]
    again = redeliver(dead, NOW + 9)
    assert (again.state, again.next_time, again.id) == (DeliveryState.PENDING, NOW + 9, dead.id)
    count = 0
    while again.state is DeliveryState.PENDING:
        again = settle(again, PACED, Answer(500), now=NOW, jitter=0)
        count += 1
    assert (count, again.attempts) == (3, 6)


@pytest.mark.parametrize("state", [DeliveryState.PENDING, DeliveryState.SUCCEEDED])
def test_only_a_dead_letter_can_be_asked_for_again(state: DeliveryState) -> None:
    with pytest.raises(DeliveryNotDead):
        redeliver(replace(DELIVERY, state=state), NOW)


def test_nothing_follows_a_success() -> None:
    assert DELIVERY_TRANSITIONS[DeliveryState.SUCCEEDED] == {}
    done = replace(DELIVERY, state=DeliveryState.SUCCEEDED)
    with pytest.raises(DeliveryNotDead):
        give_up(done, "no", NOW)


@pytest.mark.req("S-26")
def test_an_endpoint_rests_after_twenty_straight_failures_and_longer_each_time() -> None:
    breaker = Breaker()
    rests = []
    for _ in range(BREAKER_FAILURES + 8):
        breaker = breaker.failed(NOW)
        rests.append(breaker.rests_until - NOW if breaker.rests_until else 0)
    assert rests[: BREAKER_FAILURES - 1] == [0] * (BREAKER_FAILURES - 1)
    assert rests[BREAKER_FAILURES - 1 :][:3] == [60_000, 120_000, 240_000]
    assert max(rests) == 3_600_000


@pytest.mark.req("R128", "X20")
def test_statuses_select_the_status_event_that_enters_them() -> None:
    words = ("completed", "failed")
    assert wants(words, status(TaskState.COMPLETED))
    assert wants(words, status(TaskState.FAILED))
    assert wants(words, status(TaskState.REJECTED))
    assert not wants(words, status(TaskState.CANCELED))
    assert not wants(words, status(TaskState.WORKING))
    assert not wants(words, Event("t", 2, NOW, ResultStored("{}")))
    assert wants(("cancelled",), status(TaskState.CANCELED))


@pytest.mark.req("X14")
@pytest.mark.parametrize(
    ("payload", "family"),
    [
        (StatusChanged(TaskState.WORKING, None), "status"),
        (ResultStored("{}"), "status"),
        (Progress(50.0), "progress"),
        (LogLine(1, "x"), "log"),
    ],
)
def test_families_select_by_both_spellings(payload: object, family: str) -> None:
    event = Event("t", 1, NOW, payload)
    assert event.family is EventFamily[family.upper()]
    for prefix in ("", "task."):
        assert wants((prefix + family,), event)
        others = tuple(
            prefix + other for other in ("status", "progress", "artifact", "log") if other != family
        )
        assert not wants(others, event)


@pytest.mark.req("X14")
def test_no_filter_selects_everything() -> None:
    assert wants((), status(TaskState.WORKING))
    assert "task.progress" in FILTER_WORDS
