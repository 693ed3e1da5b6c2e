"""Deadlines and cancels of runtime operations: in the queue, in flight, and with nobody there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from aiosd.application.messages import Hello, Welcome
from aiosd.application.operation_messages import RunOperation
from aiosd.application.writes import PutOperation
from tests.application.runtime_world import OWNER, RuntimeWorld, in_world
from tests.application.scripted_instance import Stream
from tests.support.manual_clock import LoopClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.writes import Write


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


@in_world
@pytest.mark.req("R166", "Y11")
async def test_a_command_that_never_reached_the_instance_expires_in_time(
    world: RuntimeWorld,
) -> None:
    late = await given_to_nobody(world, deadline_ms=100)
    done = await world.end(late)
    assert (done.status.word, done.error and done.error.retry_mode) == ("expired", "resubmit")
    assert done.end_time < done.request.expire_time + 100
    world.instance.start()
    await world.end(await world.create(["sleep", 1]))
    assert world.told[late] == 0


@in_world
@pytest.mark.req("R170", "Y14")
async def test_a_command_that_never_reached_the_instance_is_cancelled_at_once(
    world: RuntimeWorld,
) -> None:
    made = await given_to_nobody(world)
    asked = await world.daemon.operations.cancel(OWNER, made, "changed my mind")
    done = await world.end(made)
    assert (done.status.word, done.end_time) == ("cancelled", asked.update_time)


@in_world
@pytest.mark.req("R165", "R170", "Y14")
async def test_a_command_that_ended_while_its_instance_came_back_is_not_given_to_it(
    world: RuntimeWorld,
) -> None:
    made = await given_to_nobody(world)
    running = await world.get(made)
    session = world.daemon.sessions.get(running.holder)
    assert session is not None
    stream, hello = Stream(), Hello(session.id, "runtime", (), 1)
    world.daemon.sessions.attach(hello, "owner", stream)
    reattached = await world.daemon.operating.attach(session, hello)
    await world.daemon.operations.cancel(OWNER, made, "")
    await world.end(made)
    session.welcome(stream, Welcome(200, 1_000, (), reattached.continued))
    await world.daemon.operating.catch_up(session, reattached)
    said = [stream.down.get_nowait() for _ in range(stream.down.qsize())]
    assert not [one for one in said if isinstance(one, RunOperation)]


async def given_to_nobody(world: RuntimeWorld, **options: int) -> str:
    """An operation whose instance was killed while it was stored that it runs there."""

    async def kill(writes: Sequence[Write]) -> None:
        if any(isinstance(one, PutOperation) and one.operation.holder for one in writes):
            world.store._before = before
            world.instance.kill()
            await asyncio.sleep(0.01)

    before, world.store._before = world.store._before, kill
    made = await world.create(["effect"], **options)
    await world.status(made, "running")
    return made


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
