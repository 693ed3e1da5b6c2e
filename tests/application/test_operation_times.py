"""Deadlines of runtime operations: in the queue, in flight, and when nobody says a word."""

from __future__ import annotations

import asyncio

import pytest

from tests.application.runtime_world import RuntimeWorld, in_world
from tests.support.manual_clock import LoopClock


@in_world
@pytest.mark.req("R166", "Y11")
async def test_a_command_that_waits_too_long_expires_and_never_runs(world: RuntimeWorld) -> None:
    busy = await world.create(["sleep", 500])
    late = await world.create(["effect"], deadline_ms=100)
    done = await world.end(late)
    assert (done.status.word, done.error and done.error.code) == ("expired", "COMMAND_EXPIRED")
    await world.end(busy)
    assert world.told[late] == 0


@in_world
@pytest.mark.req("R166", "Y11")
async def test_a_command_that_is_stopped_in_flight_in_time_expires(world: RuntimeWorld) -> None:
    late = await world.create(["sleep", 5_000], ["effect"], deadline_ms=100)
    assert (await world.end(late)).status.word == "expired"
    assert world.effects[late] == 0


class SlippingClock:
    """Tells, once, a moment before a given time, as when a timer fires a little early."""

    def __init__(self, time: int) -> None:
        self._clock = LoopClock()
        self._time = time

    def now(self) -> int:
        now = self._clock.now()
        if now != self._time:
            return now
        self._time = 0
        return now - 1


@in_world
@pytest.mark.req("R166", "H14")
async def test_a_time_that_comes_while_the_daemon_looks_is_not_slept_through(
    world: RuntimeWorld,
) -> None:
    late = await world.create(["sleep", 30_000], ["effect"], deadline_ms=100)
    running = await world.status(late, "running")
    world.daemon.operating._clock = SlippingClock(running.request.expire_time)
    done = await world.end(late)
    assert done.status.word == "expired"
    assert done.end_time - running.request.expire_time < 1_000


@in_world
@pytest.mark.req("R166", "Y11", "Y12")
async def test_a_command_that_does_not_stop_in_time_is_of_unknown_outcome(
    world: RuntimeWorld,
) -> None:
    late = await world.create(["deaf"], ["sleep", 2_000], ["effect"], deadline_ms=100)
    done = await world.end(late)
    assert (done.status.word, done.error and done.error.retry_mode) == ("outcome_unknown", "none")
    await asyncio.sleep(5)
    assert await world.get(late) == done
