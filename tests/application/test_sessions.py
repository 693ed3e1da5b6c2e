"""Providers that come, go, freeze and come back; nothing is lost, repeated or made up (I13-I19)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.application import messages as wire
from aiosd.application.errors import SessionLost
from aiosd.domain.content import LogLevel, LogLine, Progress
from aiosd.domain.event import AttemptChanged
from aiosd.domain.failure import Failure, Outcome, RetryAdvice
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


# --- loss ---------------------------------------------------------------------------------------


@on_stage()
@pytest.mark.req("H10", "H11", "I16", "I18", "R058")
async def test_a_silent_provider_is_lost_with_its_lease_and_its_work_is_uncertain(
    stage: Stage,
) -> None:
    hand, task = await running(stage, max_attempts=3)
    hand.beats = False
    await stage.pass_time(2_000)
    assert (await stage.now(task)).state is S.WORKING
    await stage.pass_time(2_500)
    after = await stage.now(task)
    assert hand.closed == "lost"
    assert (after.state, after.outcome, after.advice) == (
        S.FAILED,
        Outcome.UNCERTAIN,
        RetryAdvice.MANUAL_REVIEW,
    )
    with pytest.raises(SessionLost):
        await Hand(stage, "sess-1").attach()


@on_stage()
@pytest.mark.req("H11", "I18")
async def test_a_provider_that_beats_is_never_lost_however_long_it_is_silent_about_its_work(
    stage: Stage,
) -> None:
    hand, task = await running(stage)
    await stage.pass_time(10 * 60_000)
    assert (await stage.now(task)).state is S.WORKING
    await hand.say(task, DONE)
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I17")
async def test_lost_work_that_is_safe_to_repeat_goes_to_another_provider(stage: Stage) -> None:
    hand, task = await running(stage, max_attempts=2, retry_safe=True)
    other = await Hand(stage, "sess-2").attach()
    hand.beats = False
    await stage.pass_time(4_500)
    assert [(one.task_id, one.attempt) for one in other.heard(wire.Go)] == [(task.id, 2)]
    await other.say(task, DONE, attempt=2)
    assert (await stage.now(task)).state is S.COMPLETED
    told = [one.payload for one in await stage.log(task) if isinstance(one.payload, AttemptChanged)]
    assert [(one.attempt, one.change) for one in told] == [(1, "lost"), (2, "started")]


@on_stage()
@pytest.mark.req("I15", "H10")
async def test_reports_of_a_session_that_does_not_hold_the_attempt_are_refused(
    stage: Stage,
) -> None:
    hand, task = await running(stage)
    twin = await Hand(stage, "sess-2").attach()  # the same name, another session
    before = (await stage.now(task)).revision
    await twin.say(task, DONE)
    assert [one.reason for one in twin.heard(wire.Refused)] == ["ATTEMPT_FENCED"]
    await hand.say(task, DONE, attempt=2)
    assert [one.reason for one in hand.heard(wire.Refused)] == ["ATTEMPT_FENCED"]
    assert (await stage.now(task)).revision == before


@on_stage()
@pytest.mark.req("I16")
async def test_what_was_reported_before_detach_counts(stage: Stage) -> None:
    hand, task = await running(stage)
    assert hand.session is not None
    execution = stage.core.execution
    await execution.report(hand.session, wire.Report(task.id, 1, 1, DONE))
    await execution.detach(hand.session)
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I16")
async def test_detach_loses_what_was_still_held(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.detach()
    assert (await stage.now(task)).outcome is Outcome.UNCERTAIN


@on_stage()
@pytest.mark.req("R057", "I16", "I17")
async def test_a_question_stays_open_when_its_provider_leaves_and_its_answer_tells_the_loss(
    stage: Stage,
) -> None:
    hand, task = await running(stage)
    await hand.say(task, wire.RequestInput("ask-1", "which?", timeout_ms=60_000))
    before = (await stage.now(task)).interruption
    await hand.detach()
    await stage.restart()
    kept = await stage.now(task)
    assert (kept.state, kept.interruption) == (S.INPUT_REQUIRED, before)
    await Hand(stage, "sess-2").attach()
    done = await stage.core.control.submit_input(ANN, task.id, "{}", "")
    assert (done.state, done.outcome) == (S.FAILED, Outcome.UNCERTAIN)
    assert done.failure is not None
    assert done.failure.reason == "agent_lost"
    assert done.attempt.number == 1


@on_stage()
@pytest.mark.req("R057", "R185")
async def test_a_paused_task_that_may_be_repeated_begins_again_when_it_is_resumed(
    stage: Stage,
) -> None:
    hand, task = await running(stage, retry_safe=True, max_attempts=2)
    pausing = stage.spawn(stage.core.control.pause(ANN, task.id, ""))
    await stage.settle()
    await hand.say(task, wire.Paused())
    await pausing
    await hand.detach()
    assert (await stage.now(task)).state is S.PAUSED
    second = await Hand(stage, "sess-2").attach()
    await stage.core.control.resume(ANN, task.id, "")
    await stage.settle()
    assert second.heard(wire.Go, task)
    assert (await stage.now(task)).attempt.number == 2


@on_stage()
@pytest.mark.req("I14")
async def test_a_provider_that_leaves_while_its_accept_is_stored_never_started(
    stage: Stage,
) -> None:
    hand = await Hand(stage, "sess-1", accepts=False).attach()
    task = await stage.create()
    hand.accept(task.id)
    await hand.detach()  # before the commit of the start is done
    after = await stage.now(task)
    assert not hand.heard(wire.Go)
    assert (after.state in (S.SUBMITTED, S.WORKING), after.held) == (True, False)
    other = await Hand(stage, "sess-2").attach()
    assert [one.attempt for one in other.heard(wire.Go, task)] == [1]


# --- coming back --------------------------------------------------------------------------------


@on_stage()
@pytest.mark.req("I19")
async def test_welcome_is_first_and_names_what_goes_on(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, Progress(10), LogLine(LogLevel.INFO, "x"))
    await hand.drop()
    back = await hand.back(held=holding(task))
    assert isinstance(back.told[0], wire.Welcome)
    assert back.told[0].continued == (wire.ContinuedAttempt(task.id, 1, 2),)
    assert back.told[1:] == []
    await back.say(task, DONE)
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I19", "H12")
async def test_a_go_ahead_that_was_lost_with_the_stream_is_said_again(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.drop()
    back = await hand.back(held=holding(task, started=False))
    assert back.heard(wire.Go, task)


@on_stage()
@pytest.mark.req("I16")
async def test_an_attempt_that_the_provider_does_not_know_any_more_is_lost(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.drop()
    await hand.back()
    assert (await stage.now(task)).outcome is Outcome.UNCERTAIN


@on_stage()
@pytest.mark.req("I15", "I19")
async def test_what_ended_meanwhile_is_not_continued(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.drop()
    await stage.core.control.cancel(ANN, task.id, "")
    back = await hand.back(held=holding(task))
    assert back.heard(wire.Welcome)[0].continued == ()


@on_stage()
@pytest.mark.req("I25")
async def test_an_answer_that_was_lost_with_the_stream_is_given_again(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, wire.RequestInput("ask-1", "which?"))
    await hand.drop()
    await stage.core.control.submit_input(ANN, task.id, '{"a":1}', "")
    back = await hand.back(held=holding(task, waiting="ask-1"))
    assert [(one.action, one.input) for one in back.heard(wire.Input)] == [("ask-1", '{"a":1}')]
    again = await back.back(held=holding(task))  # it went on with the answer
    assert not again.heard(wire.Input)


@on_stage()
@pytest.mark.req("I25")
async def test_an_answer_to_an_earlier_attempt_does_not_answer_a_question_not_yet_stored(
    stage: Stage,
) -> None:
    hand, task = await running(stage, max_attempts=2)
    await hand.say(task, KEY)
    await stage.core.control.authenticate(ANN, task.id, GIVEN, "")
    await hand.say(task, Failure(-1, "flaky", "error", retryable=True))
    assert (await stage.now(task)).attempt.number == 2
    await hand.drop()
    back = await hand.back(held=holding(task, attempt=2, waiting="auth-1"))
    assert not back.heard(wire.AuthGranted)
    assert (await stage.now(task)).state is S.WORKING  # nobody has asked yet
    await back.say(task, KEY, attempt=2)
    assert (await stage.now(task)).state is S.AUTH_REQUIRED


@on_stage()
@pytest.mark.req("I25")
async def test_an_earlier_attempts_answer_is_not_given_to_a_question_that_is_not_stored_yet(
    stage: Stage,
) -> None:
    hand, task = await running(stage, max_attempts=2)
    await hand.say(task, wire.RequestInput("ask-1", "which?"))
    await stage.core.control.submit_input(ANN, task.id, '{"a":1}', "")
    await hand.say(task, Failure(-1, "flaky", "error", retryable=True))
    assert [one.input for one in hand.heard(wire.Offer)[-1].answers] == ['{"a":1}']
    await hand.drop()
    back = await hand.back(held=holding(task, attempt=2, waiting="ask-1"))
    assert not back.heard(wire.Input)  # its provider chose to ask, and will ask again


@on_stage()
@pytest.mark.req("I19", "I21")
async def test_nothing_is_said_before_welcome(stage: Stage) -> None:
    hand, task = await running(stage)
    other = await stage.create()
    await hand.drop()
    stage.core.ledger.forget([task.id])  # from memory: attaching has to read it
    read, gate = stage.store.task, asyncio.Event()

    async def slowly(task_id: str) -> object:
        if task_id == task.id:
            await gate.wait()
        return await read(task_id)

    stage.store.task = slowly  # type: ignore[assignment, method-assign]
    back = Hand(stage, "sess-1")
    attaching = stage.spawn(back.attach(held=(*holding(task), *holding(other))))
    await stage.settle()
    await stage.core.control.cancel(ANN, other.id, "")
    await stage.settle()
    assert back.told == []
    gate.set()
    await attaching
    assert isinstance(back.told[0], wire.Welcome)
    assert back.heard(wire.Cancel, other)


@on_stage()
@pytest.mark.req("I24")
async def test_a_pause_that_the_provider_missed_is_asked_again(stage: Stage) -> None:
    hand, task = await running(stage)
    pausing = stage.spawn(stage.core.control.pause(ANN, task.id, ""))
    await stage.settle()
    await hand.drop()
    back = await hand.back(held=holding(task))
    assert back.heard(wire.Pause, task)
    await back.say(task, wire.Paused())
    assert (await pausing).state is S.PAUSED
    again = await back.back(held=holding(task, paused=True))
    assert again.heard(wire.Pause, task)
    await stage.core.control.resume(ANN, task.id, "")
    assert again.heard(wire.Resume, task)
    late = await again.back(held=holding(task, paused=True))
    assert late.heard(wire.Resume, task)


@on_stage()
@pytest.mark.req("R113", "I25")
async def test_a_credential_is_handed_over_again_only_while_it_is_kept(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, KEY)
    await hand.drop()
    await stage.core.control.authenticate(ANN, task.id, GIVEN, "")
    back = await hand.back(held=holding(task, waiting="auth-1"))
    assert [one.response.api_key for one in back.heard(wire.AuthGranted)] == ["k"]
    await back.say(task, Progress(50))  # it was used, so it is wiped
    again = await back.back(held=holding(task, waiting="auth-1"))
    assert not again.heard(wire.AuthGranted)
    assert (await stage.now(task)).state is S.AUTH_REQUIRED  # asked for again


@on_stage()
@pytest.mark.req("I13")
async def test_a_second_stream_of_a_session_takes_over(stage: Stage) -> None:
    hand, task = await running(stage)
    back = await hand.back(held=holding(task))
    assert hand.closed == "taken over"
    stage.core.execution.disconnect(back.session, hand)
    await back.say(task, DONE)
    assert (await stage.now(task)).state is S.COMPLETED
