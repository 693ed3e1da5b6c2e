"""Who starts next, how many run, and the handshake that starts an attempt (design.md 7, 8)."""

from __future__ import annotations

import pytest

from aiosd.application.errors import OutcomeUnknown, QueueFull, ShuttingDown
from aiosd.application.messages import (
    Cancel,
    Completed,
    Drain,
    Go,
    Offer,
    OfferWithdrawn,
    Pause,
    Paused,
    Resume,
)
from aiosd.domain.content import Progress
from aiosd.domain.failure import Outcome
from aiosd.domain.state import TaskState
from aiosd.domain.task import Priority
from tests.application.stage import ANN, Hand, Stage, on_stage
from tests.support.builders import a_capability

S = TaskState
DONE = Completed("1")


@on_stage()
@pytest.mark.req("R089", "R090", "R036")
async def test_higher_priority_starts_first_and_then_the_older_one(stage: Stage) -> None:
    tasks = [
        await stage.create(priority=priority)
        for priority in (Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.URGENT)
    ]
    tasks.append(await stage.create(priority=Priority.HIGH))
    hand = await Hand(stage, "sess-1").attach(credits=1)
    by_id = {task.id: task for task in tasks}
    for _ in tasks:
        await hand.say(by_id[hand.heard(Go)[-1].task_id], DONE)
    started = [one.task.id for one in hand.heard(Offer)]
    assert started == [tasks[index].id for index in (3, 4, 1, 2, 0)]


@on_stage(max_concurrent_tasks=3, max_tasks_per_tool=9)
@pytest.mark.req("R091")
async def test_no_more_than_the_limit_are_working(stage: Stage) -> None:
    tasks = [await stage.create() for _ in range(5)]
    hand = await Hand(stage, "sess-1").attach(credits=9)
    assert len(hand.heard(Go)) == 3
    await hand.say(tasks[0], DONE)
    assert len(hand.heard(Go)) == 4


@on_stage(max_tasks_per_tool=1)
@pytest.mark.req("R092", "X39", "X40")
async def test_a_tool_at_its_cap_does_not_block_the_others(stage: Stage) -> None:
    one, two = a_capability("a.one", tool_id="x"), a_capability("a.two", tool_id="y")
    await stage.core.capabilities.remember([one, two])
    first = await stage.create("a.one", priority=Priority.URGENT)
    blocked = await stage.create("a.one", priority=Priority.URGENT)
    other = await stage.create("a.two", priority=Priority.LOW)
    hand = await Hand(stage, "sess-1").attach(one, two, credits=9)
    assert [one.task_id for one in hand.heard(Go)] == [first.id, other.id]
    await hand.say(first, DONE)
    assert (await stage.now(blocked)).state is S.WORKING


@on_stage(max_queue_size=2)
@pytest.mark.req("R093")
async def test_a_full_queue_refuses_and_works_again_when_it_drains(stage: Stage) -> None:
    await stage.create()
    waiting = await stage.create()
    with pytest.raises(QueueFull):
        await stage.create()
    assert stage.core.creation.queued == 2
    await stage.core.control.cancel(ANN, waiting.id, "")
    await stage.create()


@on_stage(max_queue_size=2)
@pytest.mark.req("R093", "I05")
async def test_a_creation_of_unknown_outcome_counts_once_it_is_known(stage: Stage) -> None:
    stage.faults = ["unknown"]
    with pytest.raises(OutcomeUnknown):
        await stage.create()
    stage.faults = ["failed"]
    with pytest.raises(OutcomeUnknown):
        await stage.create()
    await stage.pass_time(500)
    assert stage.core.creation.queued == 1  # one of the two is there
    await stage.create()
    with pytest.raises(QueueFull):
        await stage.create()
    hand = await Hand(stage, "sess-1").attach(credits=9)
    assert len(hand.heard(Go)) == 2
    assert stage.core.creation.queued == 0


@on_stage(max_concurrent_tasks=1)
@pytest.mark.req("R028", "R101", "X08")
async def test_a_paused_task_frees_its_slot_and_waits_for_one_to_go_on(stage: Stage) -> None:
    first, second, third = [await stage.create() for _ in range(3)]
    hand = await Hand(stage, "sess-1").attach(credits=9)
    pausing = stage.spawn(stage.core.control.pause(ANN, first.id, ""))
    await stage.settle()
    assert hand.heard(Pause, first)
    await hand.say(first, Paused())
    assert (await pausing).state is S.PAUSED
    assert (await stage.now(second)).state is S.WORKING
    resumed = await stage.core.control.resume(ANN, first.id, "")
    assert resumed.state is S.PAUSED
    assert resumed.resume_pending
    again = await stage.core.control.resume(ANN, first.id, "")  # accepted already
    assert again.resume_pending
    await hand.say(second, DONE)
    assert (await stage.now(first)).state is S.WORKING  # it is older than the third
    assert (await stage.now(third)).state is S.SUBMITTED
    assert hand.heard(Resume, first)
    assert stage.core.slots.working == 1


@on_stage(max_concurrent_tasks=1)
@pytest.mark.req("X08", "I07")
async def test_a_full_store_delays_who_waits_for_a_slot_and_forgets_nobody(stage: Stage) -> None:
    first, second = [await stage.create() for _ in range(2)]
    hand = await Hand(stage, "sess-1").attach(credits=9)
    pausing = stage.spawn(stage.core.control.pause(ANN, first.id, ""))
    await stage.settle()
    await hand.say(first, Paused())
    await pausing
    await stage.core.control.resume(ANN, first.id, "")
    stage.faults = ["", "full", "full"]  # the completion is stored, the resume is not
    await hand.say(second, DONE)
    assert (await stage.now(first)).state is S.PAUSED
    await stage.pass_time(500)
    assert (await stage.now(first)).state is S.WORKING


@on_stage()
@pytest.mark.req("H09")
async def test_a_provider_never_holds_more_than_its_credits(stage: Stage) -> None:
    tasks = [await stage.create() for _ in range(3)]
    hand = await Hand(stage, "sess-1").attach(credits=2)
    assert len(hand.heard(Offer)) == 2
    await hand.say(tasks[0], DONE)
    assert len(hand.heard(Offer)) == 3


@on_stage()
@pytest.mark.req("H12", "I14")
async def test_an_offer_without_answer_goes_to_another_provider(stage: Stage) -> None:
    deaf = await Hand(stage, "sess-deaf", accepts=False).attach()
    task = await stage.create()
    assert len(deaf.heard(Offer)) == 1
    assert (await stage.now(task)).state is S.SUBMITTED
    other = await Hand(stage, "sess-other").attach()
    await stage.pass_time(1_100)
    assert deaf.heard(OfferWithdrawn, task)
    assert other.heard(Go, task)
    deaf.accept(task.id)  # too late
    await stage.settle()
    assert len(deaf.heard(OfferWithdrawn, task)) == 2
    assert not deaf.heard(Go)
    assert (await stage.now(task)).attempt.holder == "sess-other"


@on_stage()
@pytest.mark.req("H12")
async def test_a_busy_provider_is_passed_over(stage: Stage) -> None:
    busy = await Hand(stage, "sess-busy", accepts=False).attach(credits=9)
    other = await Hand(stage, "sess-other").attach(credits=1)
    task = await stage.create()
    await busy.reject(task.id, busy=True)
    assert other.heard(Go, task)
    assert (await stage.now(task)).state is S.WORKING


@on_stage()
@pytest.mark.req("Z38", "X43")
async def test_a_declined_offer_rejects_the_task_and_nothing_was_started(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1", accepts=False).attach()
    task = await stage.create()
    await hand.reject(task.id, busy=False)
    after = await stage.now(task)
    assert (after.state, after.outcome) == (S.REJECTED, Outcome.NOT_STARTED)
    assert not hand.heard(Go)
    assert stage.core.slots.working == 0


@on_stage()
@pytest.mark.req("H08", "I20")
async def test_a_task_that_was_canceled_while_nobody_was_there_is_never_offered(
    stage: Stage,
) -> None:
    task = await stage.create()
    await stage.core.control.cancel(ANN, task.id, "")
    await stage.restart()
    hand = await Hand(stage, "sess-1").attach()
    assert not hand.heard(Offer)
    assert (await stage.now(task)).outcome is Outcome.NOT_STARTED


@on_stage()
@pytest.mark.req("I20")
async def test_cancel_voids_an_offer_that_is_out(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1", accepts=False).attach()
    task = await stage.create()
    await stage.core.control.cancel(ANN, task.id, "")
    await stage.settle()
    assert hand.heard(OfferWithdrawn, task)
    hand.accept(task.id)
    await stage.settle()
    assert not hand.heard(Go)


@on_stage()
@pytest.mark.req("I14")
async def test_an_accept_said_twice_is_answered_with_go(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create()
    hand.accept(task.id)
    await stage.settle()
    assert len(hand.heard(Go, task)) == 2
    assert not hand.heard(OfferWithdrawn)


@on_stage()
@pytest.mark.req("H12", "I13", "I14")
@pytest.mark.parametrize("way", ["late answer", "new stream", "lease"])
async def test_a_provider_that_owes_an_answer_is_not_offered_the_same_task_again(
    stage: Stage, way: str
) -> None:
    hand = await Hand(stage, "sess-1", accepts=False).attach()
    task = await stage.create()
    other = await stage.create()
    await stage.pass_time(2_500)
    # Two offers of one attempt could not be told apart by their answers.
    assert [one.task.id for one in hand.heard(Offer)] == [task.id, other.id]
    if way == "late answer":
        hand.accept(task.id)
    elif way == "new stream":
        await hand.drop()
        hand = await hand.back()
    else:
        await stage.pass_time(2_000)
    await stage.settle()
    assert hand.heard(Offer)[-1].task.id in (task.id, other.id)
    assert len(hand.heard(Offer)) >= (1 if way == "new stream" else 3)
    assert not hand.heard(Go)


@on_stage()
@pytest.mark.req("I13", "I16")
async def test_declining_what_was_accepted_ends_the_attempt_like_a_lost_one(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach()
    task = await stage.create()
    safe = await stage.create(retry_safe=True, max_attempts=2)
    for one in (task, safe):
        assert hand.heard(Go, one)
        await hand.reject(one.id, busy=True)
        assert [told.reason for told in hand.heard(Cancel, one)] == ["fenced"]
    assert (await stage.now(task)).outcome is Outcome.UNCERTAIN
    await stage.pass_time(500)
    assert [one.attempt for one in hand.heard(Go, safe)] == [1, 2]


@on_stage()
@pytest.mark.req("I14", "I05")
@pytest.mark.parametrize("fault", ["unknown", "failed", "full"])
async def test_go_is_said_only_when_the_start_is_stored(stage: Stage, fault: str) -> None:
    hand = await Hand(stage, "sess-1").attach()
    stage.faults = ["", fault]
    task = await stage.create()
    stored = await stage.store.task(task.id)
    assert stored is not None
    assert not hand.heard(Go) or stored.state is S.WORKING
    await stage.pass_time(1_500)
    assert hand.heard(Go, task)
    assert (await stage.now(task)).state is S.WORKING
    await hand.say(task, Progress(1), DONE)
    assert (await stage.now(task)).state is S.COMPLETED


@on_stage()
@pytest.mark.req("R057")
async def test_the_queue_keeps_its_order_over_a_restart(stage: Stage) -> None:
    low = await stage.create(priority=Priority.LOW)
    first = await stage.create()
    second = await stage.create()
    await stage.restart()
    hand = await Hand(stage, "sess-1").attach(credits=1)
    for task in (first, second, low):
        assert hand.heard(Go)[-1].task_id == task.id
        await hand.say(task, DONE)


@on_stage(max_tasks_per_tool=9)
@pytest.mark.req("H09")
async def test_more_tasks_than_the_window_holds_are_all_offered(stage: Stage) -> None:
    tasks = [await stage.create() for _ in range(80)]
    hand = await Hand(stage, "sess-1").attach(credits=99)
    for task in tasks:
        assert hand.heard(Go, task)
        await hand.say(task, DONE)


@on_stage()
@pytest.mark.req("I45")
async def test_a_daemon_that_stops_offers_nothing_more(stage: Stage) -> None:
    hand = await Hand(stage, "sess-1").attach(credits=1)
    running = await stage.create()
    await stage.create()
    await stage.core.stop()
    assert hand.heard(Drain)
    await hand.say(running, DONE)
    assert len(hand.heard(Offer)) == 1
    with pytest.raises(ShuttingDown):
        await stage.create()
