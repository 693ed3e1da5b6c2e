"""Cancel, pause, resume, answers and waiting, and the races between them (R026-R031, I21-I26)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aiosd.application import messages as wire
from aiosd.application.access import Caller
from aiosd.application.errors import PauseUnanswered, PermissionDenied, TaskNotFound
from aiosd.domain.content import LogLevel, LogLine, Option, Progress
from aiosd.domain.errors import (
    ArgumentInvalid,
    AuthRejected,
    CredentialRefused,
    InputRejected,
    InterruptionMismatch,
    NotPausable,
    TaskStateInvalid,
)
from aiosd.domain.event import AttemptChanged, StatusChanged
from aiosd.domain.failure import Failure, Outcome
from aiosd.domain.interruption import AuthRequest, AuthResponse, AuthType
from aiosd.domain.state import TaskState
from tests.application.stage import ANN, BOB, Hand, Stage, on_stage
from tests.support.builders import a_capability

if TYPE_CHECKING:
    from aiosd.domain.task import Task

S = TaskState
DONE = wire.Completed("1")
GIVEN = AuthResponse(AuthType.API_KEY, api_key="k")


async def running(stage: Stage, **options: Any) -> tuple[Hand, Task]:
    hand = await Hand(stage, "sess-1").attach()
    return hand, await stage.create(**options)


async def paused(stage: Stage) -> tuple[Hand, Task]:
    hand, task = await running(stage)
    pausing = stage.spawn(stage.core.control.pause(ANN, task.id, ""))
    await stage.settle()
    await hand.say(task, wire.Paused())
    await pausing
    return hand, task


# --- cancel -------------------------------------------------------------------------------------


@on_stage()
@pytest.mark.req("R026", "R049", "H03", "I21", "X10")
async def test_cancel_is_durable_at_once_and_a_late_result_changes_nothing(stage: Stage) -> None:
    hand, task = await running(stage)
    canceled = await stage.core.control.cancel(ANN, task.id, "enough")
    assert (canceled.state, canceled.outcome) == (S.CANCELED, Outcome.UNCERTAIN)
    await stage.settle()
    asked = hand.heard(wire.Cancel, task)
    assert [(one.reason, one.grace_ms) for one in asked] == [("canceled", 1_000)]
    await hand.say(task, DONE)
    assert [one.reason for one in hand.heard(wire.Refused)] == ["TASK_TERMINAL"]
    after = await stage.now(task)
    assert (after.state, after.result) == (S.CANCELED, None)


@on_stage()
@pytest.mark.req("H03", "H16", "I21")
@pytest.mark.parametrize("obeys", [True, False])
async def test_a_canceled_executor_costs_its_credit_until_it_has_stopped(
    stage: Stage, obeys: bool
) -> None:
    hand = await Hand(stage, "sess-1").attach(credits=1)
    task, following = await stage.create(), await stage.create()
    await stage.core.control.cancel(ANN, task.id, "")
    await stage.settle()
    assert not hand.heard(wire.Go, following)
    if obeys:
        await hand.say(task, wire.Canceled())
    else:
        await stage.pass_time(1_100)
    assert hand.heard(wire.Go, following)


@on_stage()
@pytest.mark.req("R045", "R046", "R047", "I22")
async def test_a_terminal_task_cannot_be_canceled_again(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, DONE)
    before = await stage.now(task)
    with pytest.raises(TaskStateInvalid) as refused:
        await stage.core.control.cancel(ANN, task.id, "")
    assert refused.value.metadata["state"] == "completed"
    assert await stage.now(task) == before


@on_stage()
@pytest.mark.req("R042", "I09")
async def test_of_two_racing_calls_one_wins_and_the_other_is_refused(stage: Stage) -> None:
    _, task = await running(stage)
    answers = await asyncio.gather(
        *(stage.core.control.cancel(ANN, task.id, str(one)) for one in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, TaskStateInvalid) for one in answers) == 3
    ends = [
        one
        for one in await stage.log(task)
        if isinstance(one.payload, StatusChanged) and one.payload.state is S.CANCELED
    ]
    assert len(ends) == 1


@on_stage()
@pytest.mark.req("H02", "R059", "I05")
async def test_a_caller_that_goes_away_does_not_stop_what_it_asked_for(stage: Stage) -> None:
    _, task = await running(stage)
    asking = asyncio.ensure_future(stage.core.control.cancel(ANN, task.id, ""))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    await stage.settle()
    assert (await stage.now(task)).state is S.CANCELED


@on_stage()
@pytest.mark.req("R019", "H05", "I39")
async def test_another_principals_task_looks_like_none(stage: Stage) -> None:
    _, task = await running(stage)
    control = stage.core.control
    for call in (
        control.get(BOB, task.id),
        control.cancel(BOB, task.id, ""),
        control.pause(BOB, task.id, ""),
        control.resume(BOB, task.id, ""),
        control.submit_input(BOB, task.id, "{}", ""),
        control.authenticate(BOB, task.id, GIVEN, ""),
        control.get(ANN, "task-none"),
    ):
        with pytest.raises(TaskNotFound):
            await call
    with pytest.raises(PermissionDenied):
        await control.cancel(Caller("ann", frozenset({"task:read"})), task.id, "")


# --- pause --------------------------------------------------------------------------------------


@on_stage()
@pytest.mark.req("R027", "R040", "I24")
async def test_a_pause_is_answered_by_the_provider(stage: Stage) -> None:
    hand, task = await paused(stage)
    assert (await stage.now(task)).state is S.PAUSED
    resumed = await stage.core.control.resume(ANN, task.id, "")
    assert resumed.state is S.WORKING
    assert hand.heard(wire.Resume, task)


@on_stage()
@pytest.mark.req("R027")
async def test_a_pause_without_answer_is_taken_back_and_the_task_goes_on(stage: Stage) -> None:
    hand, task = await running(stage)
    with pytest.raises(PauseUnanswered):
        await stage.core.control.pause(ANN, task.id, "")
    assert hand.heard(wire.Resume, task)
    assert (await stage.now(task)).state is S.WORKING
    await hand.say(task, wire.Paused())  # too late: it must not stand
    assert (await stage.now(task)).state is S.WORKING
    assert len(hand.heard(wire.Resume, task)) == 2


@on_stage()
@pytest.mark.req("R027", "R045")
async def test_a_completion_that_races_a_pause_wins(stage: Stage) -> None:
    hand, task = await running(stage)
    pausing = stage.spawn(stage.core.control.pause(ANN, task.id, ""))
    await stage.settle()
    await hand.say(task, DONE)
    with pytest.raises(TaskStateInvalid):
        await pausing
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("R043", "X09")
async def test_a_capability_that_cannot_pause_is_not_asked_to(stage: Stage) -> None:
    stubborn = a_capability("demo.stubborn", pausable=False)
    hand = await Hand(stage, "sess-1").attach(stubborn)
    task = await stage.create("demo.stubborn")
    with pytest.raises(NotPausable):
        await stage.core.control.pause(ANN, task.id, "")
    assert not hand.heard(wire.Pause)


@on_stage()
@pytest.mark.req("I24", "R041")
async def test_a_result_of_a_paused_task_waits_until_it_goes_on(stage: Stage) -> None:
    hand, task = await paused(stage)
    await hand.say(task, LogLine(LogLevel.INFO, "a fact"), DONE, DONE)
    assert (await stage.now(task)).state is S.PAUSED
    assert [one.up_to for one in hand.heard(wire.Ack, task)][-1] == 2
    await stage.core.control.resume(ANN, task.id, "")
    await stage.settle()
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I31", "S-38")
async def test_reports_that_wait_for_a_paused_task_are_bounded(stage: Stage) -> None:
    hand, task = await paused(stage)
    await hand.say(task, DONE)
    await hand.say(task, *[LogLine(LogLevel.INFO, "x")] * 1_100)
    refused = hand.heard(wire.Refused)
    assert {one.reason for one in refused} == {"TASK_STATE_INVALID"}
    assert 90 < len(refused) < 110
    await stage.core.control.resume(ANN, task.id, "")
    await stage.settle()
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I24", "R099")
async def test_a_parked_result_is_taken_up_however_the_task_leaves_its_stand(
    stage: Stage,
) -> None:
    hand, task = await paused(stage)
    assert hand.session is not None
    report = wire.Report(task.id, 1, 2, DONE)
    # The report and the resume meet: whichever is first, the task must not stay behind.
    reporting = stage.spawn(stage.core.execution.report(hand.session, report))
    resuming = stage.spawn(stage.core.control.resume(ANN, task.id, ""))
    await asyncio.gather(reporting, resuming)
    await stage.settle()
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I24")
async def test_pausing_between_two_attempts_needs_nobody(stage: Stage) -> None:
    hand, task = await running(stage, max_attempts=2, delay_ms=60_000)
    await hand.say(task, Failure(-1, "flaky", "error", retryable=True))
    assert (await stage.core.control.pause(ANN, task.id, "")).state is S.PAUSED
    await stage.core.control.resume(ANN, task.id, "")
    await stage.settle()
    assert [one.attempt for one in hand.heard(wire.Go, task)] == [1, 2]


# --- answers ------------------------------------------------------------------------------------


@on_stage()
@pytest.mark.req("R029", "R031", "R182", "R184", "X50")
async def test_an_answer_is_checked_and_then_handed_to_the_attempt(stage: Stage) -> None:
    hand, task = await running(stage)
    options = (Option("yes"), Option("no"))
    await hand.say(task, wire.RequestInput("ask-1", "really?", options))
    submit = stage.core.control.submit_input
    for text, interruption, refusal in (
        ('{"a":"maybe"}', "", InputRejected),
        ("[1]", "", ArgumentInvalid),
        ('{"a":NaN}', "", ArgumentInvalid),
        ('{"password":"x","a":"yes"}', "", CredentialRefused),
        ('{"a":"yes"}', "int-other", InterruptionMismatch),
    ):
        with pytest.raises(refusal):
            await submit(ANN, task.id, text, interruption)
    assert (await stage.now(task)).state is S.INPUT_REQUIRED
    await submit(ANN, task.id, '{"a":"yes"}', "")
    assert [one.input for one in hand.heard(wire.Input)] == ['{"a":"yes"}']
    with pytest.raises(TaskStateInvalid):
        await submit(ANN, task.id, '{"a":"yes"}', "")


@on_stage()
@pytest.mark.req("R031", "R181")
async def test_a_schema_decides_and_a_broken_one_is_the_providers_fault(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, wire.RequestInput("ask-1", "?", schema="broken"))
    assert [one.reason for one in hand.heard(wire.Refused)] == ["REPORT_INVALID"]
    assert (await stage.now(task)).state is S.WORKING
    await hand.say(task, wire.RequestInput("ask-1", "?", schema="false"))
    with pytest.raises(InputRejected):
        await stage.core.control.submit_input(ANN, task.id, "{}", "")


@on_stage()
@pytest.mark.req("R109", "R110", "R113", "I25")
async def test_of_two_racing_credentials_the_accepted_one_is_handed_over(stage: Stage) -> None:
    hand, task = await running(stage)
    need = wire.RequestAuth("auth-1", AuthRequest(AuthType.API_KEY))
    await hand.say(task, need)
    with pytest.raises(AuthRejected):
        other = AuthResponse(AuthType.PASSWORD, username="u", password="p")
        await stage.core.control.authenticate(ANN, task.id, other, "")
    keys = [AuthResponse(AuthType.API_KEY, api_key=f"key-{one}") for one in range(3)]
    calls = [stage.spawn(stage.core.control.authenticate(ANN, task.id, key, "")) for key in keys]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    won = [key for key, one in zip(keys, answers, strict=True) if not isinstance(one, Exception)]
    assert len(won) == 1
    assert [one.response.api_key for one in hand.heard(wire.AuthGranted)] == [won[0].api_key]
    assert not any("key-" in repr(event) for event in await stage.log(task))


@on_stage()
@pytest.mark.req("R110", "X34")
async def test_an_oauth_state_fits_its_own_request_only(stage: Stage) -> None:
    hand, task = await running(stage)
    request = AuthRequest(AuthType.OAUTH2, authorization_url="https://id.example/go?x=1")
    await hand.say(task, wire.RequestAuth("auth-1", request))
    wait = (await stage.now(task)).interruption
    assert wait is not None and wait.auth_request is not None
    query = parse_qs(urlsplit(wait.auth_request.authorization_url).query)
    assert query["code_challenge_method"] == ["S256"]
    wrong = AuthResponse(AuthType.OAUTH2, authorization_code="c", state="guessed")
    with pytest.raises(AuthRejected):
        await stage.core.control.authenticate(ANN, task.id, wrong, "")
    right = AuthResponse(AuthType.OAUTH2, authorization_code="c", state=query["state"][0])
    await stage.core.control.authenticate(ANN, task.id, right, "")
    granted = hand.heard(wire.AuthGranted)[0].response
    assert (granted.authorization_code, len(granted.code_verifier) > 40) == ("c", True)
    await hand.say(task, wire.RequestAuth("auth-2", request))
    with pytest.raises(AuthRejected):  # the state of the first request
        await stage.core.control.authenticate(ANN, task.id, right, "")


# --- waiting and reporting ----------------------------------------------------------------------


@on_stage(sync_wait_ms=5_000)
@pytest.mark.req("R007", "X12")
async def test_waiting_ends_at_the_end_at_a_question_or_with_a_snapshot(stage: Stage) -> None:
    hand, task = await running(stage)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert (await stage.core.control.wait(ANN, task.id, 60_000)).state is S.WORKING
    assert loop.time() - begun == pytest.approx(5, abs=0.1)
    waiting = stage.spawn(stage.core.control.wait(ANN, task.id, 60_000))
    await stage.settle()
    await hand.say(task, wire.RequestInput("ask-1", "?"))
    assert (await waiting).state is S.INPUT_REQUIRED
    await stage.core.control.submit_input(ANN, task.id, "{}", "")
    waiting = stage.spawn(stage.core.control.wait(ANN, task.id, 60_000))
    await stage.settle()
    await hand.say(task, DONE)
    assert (await waiting).state is S.COMPLETED


@on_stage()
@pytest.mark.req("I31")
async def test_progress_that_waits_for_one_commit_collapses_into_the_last(stage: Stage) -> None:
    hand, task = await running(stage)
    before = len(await stage.log(task))
    await hand.say(task, *(Progress(one) for one in range(50)), LogLine(LogLevel.INFO, "x"))
    told = (await stage.log(task))[before:]
    percents = [one.payload.percent for one in told if isinstance(one.payload, Progress)]
    assert len(percents) < 50
    assert percents[-1] == 49
    assert hand.heard(wire.Ack)[-1].up_to == 51


@on_stage()
@pytest.mark.req("R190", "R196", "I15")
async def test_a_report_sent_again_is_acknowledged_and_changes_nothing(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, LogLine(LogLevel.INFO, "x"))
    log = await stage.log(task)
    await hand.say(task, LogLine(LogLevel.INFO, "x"), number=1)
    assert await stage.log(task) == log
    await hand.say(task, DONE, number=3)
    assert [one.reason for one in hand.heard(wire.Refused)] == ["REPORT_INVALID"]  # a gap
    await hand.say(task, DONE, number=2)
    await hand.say(task, DONE, number=2)
    assert [one.up_to for one in hand.heard(wire.Ack)][-2:] == [2, 2]
    assert (await stage.now(task)).state is S.COMPLETED
    assert not [one for one in await stage.log(task) if isinstance(one.payload, AttemptChanged)]
