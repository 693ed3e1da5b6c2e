"""Webhooks, deliveries and the rules of posting (R124-R134, X20-X23, S-26).

A delivery is one event for one webhook. Which state may follow which is one table, as for tasks:

    pending -> succeeded      the receiver answered 2xx
    pending -> dead_letter    the budget ended, or the receiver is gone
    dead_letter -> pending    a person asked for it again
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from aiosd.domain.errors import Refusal
from aiosd.domain.event import Event, EventFamily, StatusChanged
from aiosd.domain.state import TaskState

SECOND_MS = 1000
DAY_MS = 86_400_000
#: Pauses after the first, second, ... failed attempt when the webhook names no policy (S-26).
SCHEDULE_MS = (5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000, DAY_MS)
#: The share of a pause that chance may add or take.
JITTER = 0.2
#: A receiver that refuses this often with a 4xx that no repetition cures is not asked again.
MOST_REJECTIONS = 3
#: 4xx that a repetition may cure.
PASSING = frozenset({408, 425, 429})
GONE = 410
#: Straight failures after which an endpoint rests, for how long at first and at most.
BREAKER_FAILURES = 20
BREAKER_MS = 60_000
BREAKER_LONGEST_MS = 3_600_000
LONGEST_ERROR = 500
#: The old secret signs beside the new one for so long (S-25).
ROTATION_MS = DAY_MS


class WebhookFormat(IntEnum):
    """What a receiver gets."""

    AIOS = 1
    A2A = 2


class DeliveryState(IntEnum):
    """Where a delivery stands."""

    PENDING = 1
    SUCCEEDED = 2
    DEAD_LETTER = 3


_D = DeliveryState

#: From -> to -> trigger.
DELIVERY_TRANSITIONS: dict[DeliveryState, dict[DeliveryState, str]] = {
    _D.PENDING: {
        _D.SUCCEEDED: "the receiver answered 2xx",
        _D.DEAD_LETTER: "the budget ended or the receiver is gone",
    },
    _D.SUCCEEDED: {},
    _D.DEAD_LETTER: {_D.PENDING: "a person asked for it again"},
}


class DeliveryNotDead(Refusal):
    """Only a dead letter can be scheduled again."""

    reason = "DELIVERY_NOT_DEAD"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where the events of one task are posted, without what is secret.

    `endpoint` is scheme://host:port, `shown_url` the URL without its query. `max_retries` and
    `retry_delay_ms` None mean the schedule of S-26. `has_secret` tells whether there is a secret
    of its own; else the credentials sign.
    """

    id: str
    task_id: str
    principal: str
    url: str
    endpoint: str
    shown_url: str = ""
    events: tuple[str, ...] = ()
    auth_scheme: str = ""
    has_secret: bool = False
    max_retries: int | None = None
    retry_delay_ms: int | None = None
    format: WebhookFormat = WebhookFormat.AIOS
    create_time: int = 0
    disabled: bool = False
    tenant: str = ""

    @property
    def attempts(self) -> int:
        """Attempts that one delivery gets in all."""
        return 1 + (len(SCHEDULE_MS) if self.max_retries is None else self.max_retries)

    @property
    def paced_by_caller(self) -> bool:
        """The caller named the pause between attempts, so nothing else stretches it."""
        return self.retry_delay_ms is not None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one webhook; `url` is what may be shown of the target.

    `round_start` is how many attempts were made when the budget last began to count.
    """

    id: str
    webhook_id: str
    task_id: str
    sequence: int
    event: str
    url: str
    create_time: int
    update_time: int
    next_time: int
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    round_start: int = 0
    rejections: int = 0
    last_status: int = 0
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one attempt came to: an HTTP status (0 without an answer), and why it failed.

    `refused` means that our own guard let nothing out. `retry_after_ms` is what the receiver
    asked for, 0 if nothing.
    """

    status: int = 0
    error: str = ""
    retry_after_ms: int = 0
    refused: bool = False

    @property
    def accepted(self) -> bool:
        """The receiver has it."""
        return 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        """The receiver wants nothing any more."""
        return self.status == GONE

    @property
    def rejected(self) -> bool:
        """A repetition will hardly help."""
        return self.refused or (400 <= self.status < 500 and self.status not in PASSING)


def settle(
    delivery: Delivery, webhook: Webhook, answer: Answer, *, now: int, jitter: float
) -> Delivery:
    """The delivery after one attempt; `jitter` is a random number from -1 to 1."""
    tried = replace(
        delivery,
        attempts=delivery.attempts + 1,
        rejections=delivery.rejections + int(answer.rejected),
        last_status=answer.status,
        last_error=answer.error[:LONGEST_ERROR],
        update_time=now,
    )
    if answer.accepted:
        return _enter(replace(tried, last_error=""), DeliveryState.SUCCEEDED)
    spent = tried.attempts - tried.round_start >= webhook.attempts
    hopeless = webhook.max_retries is None and tried.rejections >= MOST_REJECTIONS
    if answer.gone or spent or hopeless:
        return _enter(tried, DeliveryState.DEAD_LETTER)
    failures = tried.attempts - tried.round_start
    pause = max(_pause(webhook, failures, jitter), min(answer.retry_after_ms, DAY_MS))
    return replace(tried, next_time=now + pause)


def give_up(delivery: Delivery, why: str, now: int) -> Delivery:
    """A pending delivery that nobody will get."""
    return _enter(replace(delivery, last_error=why, update_time=now), DeliveryState.DEAD_LETTER)


def redeliver(delivery: Delivery, now: int) -> Delivery:
    """Schedule a dead letter again with its whole budget; raises DeliveryNotDead."""
    if DeliveryState.PENDING not in DELIVERY_TRANSITIONS[delivery.state]:
        raise DeliveryNotDead(
            f"the delivery is {delivery.state.name.lower()}, not a dead letter",
            {"state": delivery.state.name.lower()},
        )
    again = replace(
        delivery,
        round_start=delivery.attempts,
        rejections=0,
        next_time=now,
        update_time=now,
    )
    return _enter(again, DeliveryState.PENDING)


def _enter(delivery: Delivery, state: DeliveryState) -> Delivery:
    if state not in DELIVERY_TRANSITIONS[delivery.state]:
        raise DeliveryNotDead(
            f"a delivery that is {delivery.state.name.lower()} cannot become {state.name.lower()}"
        )
    next_time = delivery.next_time if state is DeliveryState.PENDING else 0
    return replace(delivery, state=state, next_time=next_time)


def _pause(webhook: Webhook, failures: int, jitter: float) -> int:
    if webhook.retry_delay_ms is not None:
        return webhook.retry_delay_ms
    planned = SCHEDULE_MS[min(failures, len(SCHEDULE_MS)) - 1]
    return round(planned * (1 + JITTER * max(-1.0, min(1.0, jitter))))


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is known of an endpoint: failures in a row, and until when it rests."""

    failures: int = 0
    rests_until: int = 0

    def failed(self, now: int) -> Breaker:
        """One more failure; from BREAKER_FAILURES on each doubles the rest."""
        failures = self.failures + 1
        if failures < BREAKER_FAILURES:
            return Breaker(failures)
        doublings = min(failures - BREAKER_FAILURES, 10)
        return Breaker(failures, now + min(BREAKER_MS << doublings, BREAKER_LONGEST_MS))


# --- what a webhook asks for ----------------------------------------------------------------------

_FAMILIES: dict[str, EventFamily] = {
    prefix + word: family
    for prefix in ("", "task.")
    for word, family in (
        ("status", EventFamily.STATUS),
        ("input_required", EventFamily.STATUS),
        ("auth_required", EventFamily.STATUS),
        ("result", EventFamily.STATUS),
        ("error", EventFamily.STATUS),
        ("progress", EventFamily.PROGRESS),
        ("artifact", EventFamily.ARTIFACT),
        ("log", EventFamily.LOG),
    )
}
#: Statuses as filters on the status event (X20); a declined task is a failed one on that wire.
_STATUSES: dict[str, frozenset[TaskState]] = {
    "completed": frozenset({TaskState.COMPLETED}),
    "failed": frozenset({TaskState.FAILED, TaskState.REJECTED}),
    "canceled": frozenset({TaskState.CANCELED}),
    "cancelled": frozenset({TaskState.CANCELED}),
}
FILTER_WORDS = frozenset({*_FAMILIES, *_STATUSES})


def wants(words: tuple[str, ...], event: Event) -> bool:
    """Whether any of these filters selects the event; no filter selects all (X14, X20)."""
    if not words:
        return True
    payload = event.payload
    for word in words:
        family = _FAMILIES.get(word)
        if family is not None and family is event.family:
            return True
        if isinstance(payload, StatusChanged) and payload.state in _STATUSES.get(word, ()):
            return True
    return False
