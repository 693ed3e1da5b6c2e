"""The clock follows elapsed time and not whoever sets the wall clock."""

from __future__ import annotations

import time

import pytest

from aiosd.adapters.system.clock import SystemClock

MS = 1_000_000


class Hands:
    """A wall clock and a steady clock that a test moves."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000_000 * MS
        self.steady = 5_000 * MS

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.wall, lambda: self.steady)

    def pass_ms(self, milliseconds: int) -> None:
        self.wall += milliseconds * MS
        self.steady += milliseconds * MS


def test_it_starts_at_the_wall_clock() -> None:
    before = time.time_ns() // MS

    now = SystemClock().now()

    assert before <= now <= time.time_ns() // MS


def test_it_moves_with_elapsed_time() -> None:
    hands = Hands()
    clock = hands.clock()

    hands.pass_ms(1_234)

    assert clock.now() == 1_700_000_001_234
    assert clock.jumped_ms() == 0


@pytest.mark.req("I48")
@pytest.mark.parametrize("jump_ms", [-7 * 86_400_000, -1, 1, 30 * 86_400_000])
def test_a_wall_clock_that_is_set_moves_nothing_and_is_reported(jump_ms: int) -> None:
    hands = Hands()
    clock = hands.clock()

    hands.wall += jump_ms * MS
    hands.pass_ms(10)

    assert clock.now() == 1_700_000_000_010
    assert clock.jumped_ms() == jump_ms
