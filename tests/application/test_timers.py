"""What happens by itself when a time has come (R095-R101, R112, H14)."""

from __future__ import annotations

import asyncio
import json

import pytest

from aiosd.application import messages as wire
from aiosd.application.creation import NewTask
from aiosd.application.errors import TaskNotFound
from aiosd.domain.failure import Failure, Outcome
from aiosd.domain.interruption import AuthRequest, AuthType
from aiosd.domain.state import TaskState
from aiosd.domain.task import Options
from tests.application.stage import ANN, Hand, Stage, holding, on_stage
from tests.support.builders import a_capability

S = TaskState
DONE = wire.Completed("1")
FLAKY = Failure(-1, "flaky", "error", retryable=True)


@on_stage()
@pytest.mark.req("R095", "R096", "R098", "X05")
async def test_a_task_over_its_working_time_fails_and_its_executor_is_stopped(
    stage: Stage,
) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create(timeout_ms=2_000)
    await stage.pass_time(1_000)
    await hand.say(task, wire.RequestInput("ask-1", "?"))
    await stage.pass_time(60_000)  # waiting does not count
    await stage.core.control.submit_input(ANN, task.id, "{}", "")
    await stage.pass_time(900)
    assert (await stage.now(task)).state is S.WORKING
    await stage.pass_time(200)
    after = await stage.now(task)
    assert after.state is S.FAILED
    assert after.failure is not None
    assert (after.failure.code, after.failure.message) == (-32005, "Timeout")
    assert 2_000 <= json.loads(after.failure.data)["elapsed_ms"] <= 2_050
    assert [one.reason for one in hand.heard(wire.Cancel, task)] == ["timeout"]
    await hand.say(task, DONE)
    assert (await stage.now(task)).state is S.FAILED


@on_stage(default_timeout_ms=7_000)
@pytest.mark.req("R097", "X05")
async def test_the_default_timeout_is_filled_in_at_creation(stage: Stage) -> None:
    await stage.core.capabilities.remember([a_capability("demo.brief", default_timeout_ms=500)])
    timeouts = []
    for capability, options in (
        ("demo.work", Options(timeout_ms=9)),
        ("demo.brief", Options()),
        ("demo.work", Options(synchronous=True)),
        ("demo.work", Options()),
    ):
        new = NewTask(capability, options=options)
        task, _ = await stage.core.creation.create(ANN, new)
        timeouts.append(task.options.timeout_ms)
    assert timeouts == [9, 500, 30_000, 7_000]


@on_stage()
@pytest.mark.req("R095", "H14", "I07", "I10")
@pytest.mark.parametrize("fault", ["full", "failed", "unknown"])
async def test_a_timer_that_meets_a_failing_store_is_not_forgotten(
    stage: Stage, fault: str
) -> None:
    await Hand(stage, "sess-1").attach()
    task = await stage.create(timeout_ms=1_000)
    stage.faults = [fault, fault] if fault != "unknown" else [fault]
    await stage.pass_time(1_900)
    assert (await stage.now(task)).state is S.FAILED
    ends = [one for one in await stage.log(task) if getattr(one.payload, "state", 0) is S.FAILED]
    assert len(ends) == 1


@on_stage()
@pytest.mark.req("R099", "R100", "X06")
async def test_retries_are_the_delay_apart_and_at_most_as_many_as_asked(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create(max_attempts=3, delay_ms=5_000)
    for attempt in (1, 2):
        await hand.say(task, FLAKY, attempt=attempt)
        await stage.pass_time(4_900)
        assert len(hand.heard(wire.Go, task)) == attempt
        assert (await stage.now(task)).state is S.WORKING
        await stage.pass_time(200)
    assert [one.attempt for one in hand.heard(wire.Go, task)] == [1, 2, 3]
    await hand.say(task, FLAKY, attempt=3)
    assert (await stage.now(task)).state is S.FAILED


@on_stage()
@pytest.mark.req("R099", "R057", "X07")
async def test_a_back_off_survives_a_restart(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create(max_attempts=2, delay_ms=5_000)
    await hand.say(task, FLAKY)
    await hand.drop()
    await stage.restart()
    back = await hand.back()
    assert not back.heard(wire.Go)
    await stage.pass_time(5_100)
    assert [one.attempt for one in back.heard(wire.Go, task)] == [2]


@on_stage(auth_timeout_ms=3_000, input_timeout_ms=0)
@pytest.mark.req("R050", "R112", "X04", "I26")
async def test_waits_expire_by_their_own_time_or_the_settings_or_never(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    asked, timed, needed = [await stage.create(timeout_ms=500) for _ in range(3)]
    await hand.say(asked, wire.RequestInput("ask-1", "?"))
    await hand.say(timed, wire.RequestInput("ask-1", "?", timeout_ms=1_000))
    await hand.say(needed, wire.RequestAuth("auth-1", AuthRequest(AuthType.API_KEY)))
    await stage.pass_time(1_100)
    assert (await stage.now(timed)).state_reason == "wait_expired"
    assert (await stage.now(needed)).state is S.AUTH_REQUIRED
    await stage.pass_time(2_000)
    after = await stage.now(needed)
    assert after.failure is not None
    assert json.loads(after.failure.data)["waiting_for"] == "auth"
    assert [one.state for one in await stage.store.history(needed.id)][-2:] == [S.WORKING, S.FAILED]
    await stage.pass_time(10 * 60_000)
    assert (await stage.now(asked)).state is S.INPUT_REQUIRED


@on_stage()
@pytest.mark.req("R057", "I26")
async def test_a_wait_that_ended_while_the_daemon_was_away_expires_at_its_start(
    stage: Stage,
) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create()
    await hand.say(task, wire.RequestInput("ask-1", "?", timeout_ms=1_000))
    await hand.drop()
    stage._process.kill()
    await stage.pass_time(3_000)
    await stage.restart()
    back = await hand.back(held=holding(task, waiting="ask-1"))
    await stage.settle()
    assert (await stage.now(task)).state is S.FAILED
    assert back.closed == ""


@on_stage()
@pytest.mark.req("Y06", "I10")
@pytest.mark.parametrize("state", ["queued", "working", "paused", "asking"])
async def test_a_deadline_passes_whatever_the_task_is_doing(stage: Stage, state: str) -> None:
    task = await stage.create(deadline_ms=2_000)
    if state != "queued":
        hand = await Hand(stage, "sess-1").attach()
        if state == "paused":
            pausing = stage.spawn(stage.core.control.pause(ANN, task.id, ""))
            await stage.settle()
            await hand.say(task, wire.Paused())
            await pausing
        elif state == "asking":
            await hand.say(task, wire.RequestInput("ask-1", "?"))
    await stage.pass_time(2_100)
    after = await stage.now(task)
    assert after.state is S.FAILED
    assert after.outcome is (Outcome.NOT_STARTED if state == "queued" else Outcome.UNCERTAIN)
    assert stage.core.slots.working == 0


@on_stage()
@pytest.mark.req("I10", "H07")
async def test_a_time_that_is_far_away_is_kept_on_disk_and_still_comes(stage: Stage) -> None:
    task = await stage.create(deadline_ms=10 * 60_000)
    assert not stage.core._deadlines._heap
    await stage.pass_time(10 * 60_000 - 1_000)
    assert (await stage.now(task)).state is S.SUBMITTED
    await stage.pass_time(1_100)
    assert (await stage.now(task)).state is S.FAILED


@on_stage(task_retention_hours=1)
@pytest.mark.req("R078", "I30")
async def test_a_task_whose_time_is_over_is_forgotten_also_by_who_still_has_it(
    stage: Stage,
) -> None:
    task = await stage.create()
    await stage.core.control.cancel(ANN, task.id, "")
    await stage.pass_time(2 * 3_600_000)
    with pytest.raises(TaskNotFound):
        await stage.now(task)
    with pytest.raises(TaskNotFound):
        async with asyncio.timeout(5):
            async for _ in stage.core.watch.follow(task.id, 0):
                pass
