"""A store that fails at the commit, before or after its effect, or is full (E17, I05, I07)."""

from __future__ import annotations

import asyncio

import pytest

from aiosd.application import messages as wire
from aiosd.application.creation import NewTask
from aiosd.application.errors import Full, OutcomeUnknown, RequestIdConflict
from aiosd.domain.interruption import AuthRequest, AuthResponse, AuthType
from aiosd.domain.state import TaskState
from tests.application.stage import ANN, BOB, Hand, Stage, on_stage

S = TaskState
DONE = wire.Completed("1")
GIVEN = AuthResponse(AuthType.API_KEY, api_key="k")
FAULTS = pytest.mark.parametrize("fault", ["failed", "unknown"])


@on_stage()
@pytest.mark.req("I02", "I03", "I05", "R189", "H04")
@FAULTS
async def test_a_creation_of_unknown_outcome_is_settled_by_its_key(
    stage: Stage, fault: str
) -> None:
    create, new = stage.core.creation.create, NewTask("demo.work", request_id="key-1")
    stage.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        await create(ANN, new)
    task, made = await create(ANN, new)
    assert made == (fault == "failed")
    again, made = await create(ANN, new)
    assert (again.id, made) == (task.id, False)
    await stage.pass_time(500)
    assert stage.core.creation.queued == 1


@on_stage()
@pytest.mark.req("I03", "I04", "H04", "R191")
async def test_a_key_makes_one_task_however_often_and_however_fast_it_is_used(
    stage: Stage,
) -> None:
    create = stage.core.creation.create
    same = NewTask("demo.work", request_id="key-1")
    other = NewTask("demo.work", '{"n":1}', request_id="key-1")
    answers = await asyncio.gather(
        *(create(ANN, one) for one in (same, same, other, same)), return_exceptions=True
    )
    made = {one[0].id for one in answers if isinstance(one, tuple)}
    assert len(made) == 1
    assert sum(one[1] for one in answers if isinstance(one, tuple)) == 1
    assert sum(isinstance(one, RequestIdConflict) for one in answers) in (1, 3)
    foreign, _ = await create(BOB, same)
    assert foreign.id not in made
    assert stage.core.creation.queued == 2


@on_stage()
@pytest.mark.req("I03", "I04", "R056")
async def test_a_key_is_remembered_over_a_restart(stage: Stage) -> None:
    task = await stage.create(request_id="key-1", arguments='{"n":1}')
    await stage.restart()
    again, made = await stage.core.creation.create(
        ANN,
        NewTask("demo.work", '{"n":1}', options=task.options, retry_named=True, request_id="key-1"),
    )
    assert (again.id, made) == (task.id, False)


@on_stage()
@pytest.mark.req("I05", "I21")
@FAULTS
async def test_a_cancel_of_unknown_outcome_is_true_one_way_or_the_other(
    stage: Stage, fault: str
) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create()
    stage.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        await stage.core.control.cancel(ANN, task.id, "")
    await stage.pass_time(500)
    happened = fault == "unknown"
    assert ((await stage.now(task)).state is S.CANCELED) == happened
    assert bool(hand.heard(wire.Cancel, task)) == happened
    assert stage.core.slots.working == (0 if happened else 1)


@on_stage()
@pytest.mark.req("I05", "I07", "I32")
@pytest.mark.parametrize("fault", ["failed", "unknown", "full"])
async def test_a_terminal_report_is_acknowledged_only_when_it_is_stored(
    stage: Stage, fault: str
) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create()
    stage.faults = [fault]
    await hand.say(task, DONE)
    if fault == "full":
        assert not hand.heard(wire.Ack)
    await stage.pass_time(1_000)
    assert [one.up_to for one in hand.heard(wire.Ack)] == [1]
    assert not hand.heard(wire.Refused)
    assert (await stage.now(task)).state is S.COMPLETED
    ends = [one for one in await stage.log(task) if getattr(one.payload, "state", 0) is S.COMPLETED]
    assert len(ends) == 1


@on_stage()
@pytest.mark.req("I27", "I05")
@FAULTS
async def test_observers_are_told_of_every_event_once_and_in_order(
    stage: Stage, fault: str
) -> None:
    told: list[int] = []
    stage.core.ledger.observe(lambda _, draft: told.extend(one.sequence for one in draft.events))
    hand = await Hand(stage, "sess-1").attach()
    stage.faults = ["", fault]
    task = await stage.create()
    await stage.pass_time(1_500)
    stage.faults = [fault]
    await hand.say(task, wire.RequestInput("ask-1", "?"))
    await stage.pass_time(500)
    assert told == [one.sequence for one in await stage.log(task)]


@on_stage()
@pytest.mark.req("I25", "I05")
async def test_an_answer_whose_commit_was_in_doubt_reaches_the_provider(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task, needing = await stage.create(), await stage.create()
    await hand.say(task, wire.RequestInput("ask-1", "?"))
    await hand.say(needing, wire.RequestAuth("auth-1", AuthRequest(AuthType.API_KEY)))
    for call, about in (
        (stage.core.control.submit_input(ANN, task.id, '{"a":1}', ""), task),
        (stage.core.control.authenticate(ANN, needing.id, GIVEN, ""), needing),
    ):
        stage.faults = ["unknown"]
        with pytest.raises(OutcomeUnknown):
            await call
        await stage.pass_time(500)
        assert (await stage.now(about)).state is S.WORKING
    assert [one.input for one in hand.heard(wire.Input, task)] == ['{"a":1}']
    assert [one.response.api_key for one in hand.heard(wire.AuthGranted, needing)] == ["k"]


@on_stage()
@pytest.mark.req("H14", "I07", "I10", "I16")
@pytest.mark.parametrize("fault", ["full", "failed", "unknown"])
async def test_losing_a_provider_while_the_store_is_away_resolves_every_attempt(
    stage: Stage, fault: str
) -> None:
    hand = await Hand(stage, "sess-1").attach()
    tasks = [await stage.create() for _ in range(3)]
    hand.beats = False
    await stage.pass_time(2_500)
    stage.faults = [fault] * (1 if fault == "unknown" else 7)
    await stage.pass_time(6_000)
    assert [(await stage.now(task)).state for task in tasks] == [S.FAILED] * 3
    assert stage.core.slots.working == 0


@on_stage()
@pytest.mark.req("I07", "R093")
async def test_a_full_store_refuses_creations_and_reads_go_on(stage: Stage) -> None:
    task = await stage.create()
    stage.faults = ["full"]
    with pytest.raises(Full):
        await stage.create()
    assert (await stage.now(task)).id == task.id
    assert stage.core.creation.queued == 1
    await stage.create()


@on_stage()
@pytest.mark.req("I28", "I27", "H01")
@FAULTS
async def test_a_watcher_misses_nothing_when_commits_are_in_doubt(stage: Stage, fault: str) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create()
    seen: list[int] = []

    async def watch() -> None:
        async for batch in stage.core.watch.follow(task.id, 0):
            seen.extend(one.sequence for one in batch.events)

    watching = stage.spawn(watch())
    await stage.settle()
    for number in range(6):
        stage.faults = [fault] if number % 2 else []
        await hand.say(task, wire.RequestInput(f"ask-{number}", "?"))
        await stage.pass_time(300)
        await stage.core.control.submit_input(ANN, task.id, "{}", "")
    await hand.say(task, DONE)
    await watching
    assert seen == [one.sequence for one in await stage.log(task)]
    assert seen == list(range(1, len(seen) + 1))
