"""Ids are UUIDv7, sort in the order of their making, and never repeat."""

from __future__ import annotations

import base64
import threading
import uuid

import pytest

from aiosd.adapters.system.ids import SystemIds


class StandingClock:
    """A clock that moves when a test moves it."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_123

    def now(self) -> int:
        return self.ms


def parsed(identifier: str) -> uuid.UUID:
    return uuid.UUID(identifier.rpartition("-")[2])


def test_an_id_is_its_kind_and_a_version_seven_uuid() -> None:
    clock = StandingClock()

    identifier = SystemIds(clock).new("task")

    kind, _, digits = identifier.partition("-")
    number = parsed(identifier)
    assert kind == "task" and len(digits) == 32
    assert number.version == 7 and number.variant == uuid.RFC_4122
    assert number.int >> 80 == clock.ms


def test_ids_of_one_millisecond_sort_and_differ() -> None:
    ids = SystemIds(StandingClock())

    made = [ids.new("task") for _ in range(5_000)]

    assert made == sorted(set(made))


def test_ids_sort_even_when_the_clock_goes_back() -> None:
    clock = StandingClock()
    ids = SystemIds(clock)
    first = ids.new("task")

    clock.ms -= 60_000

    assert first < ids.new("task")


def test_used_up_random_bits_carry_into_the_time() -> None:
    clock = StandingClock()
    ids = SystemIds(clock, random=lambda size: b"\xff" * size)

    first, second = ids.new("task"), ids.new("task")

    assert first < second
    assert parsed(second).int >> 80 == clock.ms + 1
    assert parsed(second).version == 7 and parsed(second).variant == uuid.RFC_4122


@pytest.mark.req("S-19")
def test_every_random_bit_is_used() -> None:
    ones = SystemIds(StandingClock(), random=lambda size: b"\xff" * size).new("t")
    zeros = SystemIds(StandingClock(), random=lambda size: b"\x00" * size).new("t")

    assert (parsed(ones).int ^ parsed(zeros).int).bit_count() == 74


def test_threads_share_ids_without_repeating_any() -> None:
    ids = SystemIds(StandingClock())
    made: list[str] = []

    def make() -> None:
        made.extend([ids.new("task") for _ in range(2_000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 8_000


@pytest.mark.req("S-08")
def test_a_token_has_a_prefix_and_256_random_bits() -> None:
    ids = SystemIds(StandingClock())

    token = ids.token()

    assert token.startswith("aios_") and token != ids.token()
    assert len(base64.urlsafe_b64decode(token.removeprefix("aios_") + "=")) == 32


@pytest.mark.req("S-08")
def test_a_secret_has_256_random_bits_and_no_prefix() -> None:
    ids = SystemIds(StandingClock())

    secret = ids.secret()

    assert secret != ids.secret()
    assert len(base64.urlsafe_b64decode(secret + "=")) == 32
