"""Daemons that restart: work goes on if its provider comes back, and nothing is made up (X07)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from aiosd.application import messages as wire
from aiosd.domain.content import Progress
from aiosd.domain.failure import Outcome
from aiosd.domain.interruption import AuthRequest, AuthResponse, AuthType
from aiosd.domain.state import TaskState
from tests.application.stage import ANN, Hand, Stage, holding, on_stage

if TYPE_CHECKING:
    from aiosd.domain.task import Task

S = TaskState
DONE = wire.Completed("1")
KEY = wire.RequestAuth("auth-1", AuthRequest(AuthType.API_KEY))
GIVEN = AuthResponse(AuthType.API_KEY, api_key="k")


async def running(stage: Stage, **options: Any) -> tuple[Hand, Task]:
    hand = await Hand(stage, "sess-1").attach()
    return hand, await stage.create(**options)


@on_stage()
@pytest.mark.req("I19", "R056")
async def test_a_restart_does_not_disturb_work_whose_provider_comes_back(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, Progress(10))
    await stage.restart()
    assert (await stage.now(task)).state is S.WORKING
    await stage.pass_time(4_000)
    back = await hand.back(held=holding(task))
    assert back.heard(wire.Welcome)[0].continued == (wire.ContinuedAttempt(task.id, 1, 1),)
    await back.say(task, DONE)
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I16", "I19", "R058", "X07")
async def test_after_the_window_work_of_a_provider_that_stays_away_is_uncertain(
    stage: Stage,
) -> None:
    hand, task = await running(stage)
    await hand.drop()
    await stage.restart()
    other = await Hand(stage, "sess-2").attach()
    await stage.pass_time(6_500)
    assert (await stage.now(task)).outcome is Outcome.UNCERTAIN
    assert not other.heard(wire.Offer)


@on_stage()
@pytest.mark.req("R057", "I24", "X07")
async def test_paused_and_waiting_tasks_keep_their_state_and_deadline(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    paused, asking = await stage.create(), await stage.create()
    pausing = stage.spawn(stage.core.control.pause(ANN, paused.id, ""))
    await stage.settle()
    await hand.say(paused, wire.Paused())
    await pausing
    await hand.say(asking, wire.RequestInput("ask-1", "which?", timeout_ms=60_000))
    before = (await stage.now(asking)).interruption
    await hand.drop()
    await stage.restart()
    assert (await stage.now(paused)).state is S.PAUSED
    assert (await stage.now(asking)).interruption == before
    held = (*holding(paused, paused=True), *holding(asking, waiting="ask-1"))
    back = await hand.back(held=held)
    assert back.heard(wire.Pause, paused)
    await stage.core.control.submit_input(ANN, asking.id, "{}", "")
    assert back.heard(wire.Input, asking)


@on_stage(max_concurrent_tasks=1)
@pytest.mark.req("R113", "X07", "X08")
async def test_an_accepted_credential_that_died_with_the_daemon_is_asked_for_again(
    stage: Stage,
) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task, other = await stage.create(), await stage.create()
    await hand.say(task, KEY)  # frees the slot for the other
    await stage.core.control.authenticate(ANN, task.id, GIVEN, "")
    assert (await stage.now(task)).resume_pending
    await hand.drop()
    await stage.restart()
    after = await stage.now(task)
    assert (after.state, after.resume_pending) == (S.AUTH_REQUIRED, False)
    held = (*holding(task, waiting="auth-1"), *holding(other))
    back = await hand.back(held=held)
    await back.say(other, DONE)
    await stage.core.control.authenticate(ANN, task.id, GIVEN, "")
    assert back.heard(wire.AuthGranted, task)
