"""Following a task: replay and live are one, cuts are told, ends are real (I27-I31, R060-R080)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.application import messages as wire
from aiosd.application.errors import (
    CursorInvalid,
    ShuttingDown,
    SubscriptionNotFound,
    TaskNotFound,
)
from aiosd.application.watch import TAIL, Batch
from aiosd.domain.artifact import Chunk
from aiosd.domain.content import LogLevel, LogLine, Part, PartKind
from aiosd.domain.event import ArtifactChanged, EventFamily, StatusChanged
from aiosd.domain.state import TaskState
from tests.application.stage import ANN, BOB, Hand, Stage, holding, on_stage

if TYPE_CHECKING:
    import asyncio

    from aiosd.domain.event import Event
    from aiosd.domain.task import Task

S = TaskState
DONE = wire.Completed("1")
LINE = LogLine(LogLevel.INFO, "x")


class Reader:
    """A subscriber of a test."""

    def __init__(self, stage: Stage, task: Task, after: int = 0, **named: object) -> None:
        self.batches: list[Batch] = []
        self.work: asyncio.Task[None] = stage.spawn(self._read(stage, task, after, named))

    async def _read(self, stage: Stage, task: Task, after: int, named: dict[str, object]) -> None:
        async for batch in stage.core.watch.follow(task.id, after, **named):
            self.batches.append(batch)

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch.events]

    @property
    def numbers(self) -> list[int]:
        return [event.sequence for event in self.events]


async def running(stage: Stage) -> tuple[Hand, Task]:
    hand = await Hand(stage, "sess-1").attach()
    return hand, await stage.create()


@on_stage()
@pytest.mark.req("R075", "R080", "I27", "I28", "I30", "H01", "H18")
async def test_readers_from_anywhere_see_the_rest_of_the_log_and_then_the_end(
    stage: Stage,
) -> None:
    hand, task = await running(stage)
    first = Reader(stage, task)
    for number in range(2 * TAIL // 10):
        await hand.say(task, *[LINE] * 10)
        if number == 10:
            second = Reader(stage, task, after=50)
    late = Reader(stage, task, after=3)
    await hand.say(task, DONE)
    for reader in (first, second, late):
        await reader.work
    log = await stage.log(task)
    head = len(log)
    assert first.events == log
    assert second.numbers == list(range(51, head + 1))
    assert late.numbers == list(range(4, head + 1))


@on_stage()
@pytest.mark.req("R076", "R077", "R180", "I28", "H01")
async def test_a_reader_goes_on_after_a_restart_and_after_the_end(stage: Stage) -> None:
    hand, task = await running(stage)
    await hand.say(task, *[LINE] * 5)
    reader = Reader(stage, task)
    await stage.settle()
    cursor = reader.numbers[-1]
    await hand.drop()
    await stage.restart()
    again = Reader(stage, task, after=cursor)
    back = await hand.back(held=holding(task))
    await back.say(task, LINE, DONE)
    await again.work
    replayed = Reader(stage, task)
    await replayed.work
    log = await stage.log(task)
    assert [*reader.events, *again.events] == log
    assert replayed.events == log
    nothing = Reader(stage, task, after=len(log))
    await nothing.work
    assert nothing.events == []


@on_stage()
@pytest.mark.req("R062", "R063", "X14")
async def test_a_family_selects_and_the_cursor_passes_the_others(stage: Stage) -> None:
    hand, task = await running(stage)
    reader = Reader(stage, task, families=frozenset({EventFamily.STATUS}))
    await hand.say(task, LINE, LINE, DONE)
    await reader.work
    assert [type(one.payload).__name__ for one in reader.events] == [
        "StatusChanged",
        "StatusChanged",
        "StatusChanged",
        "ResultStored",
    ]
    assert reader.batches[-1].cursor == (await stage.now(task)).event_head


@on_stage()
@pytest.mark.req("R066", "I38")
async def test_parts_are_joined_on_demand(stage: Stage) -> None:
    hand, task = await running(stage)
    parts = (Part(PartKind.TEXT, "hello"),)
    plain, joined = Reader(stage, task), Reader(stage, task, parts=True)
    await hand.say(task, Chunk("art-1", parts, False, True, digest="d"), DONE)
    for reader, content in ((plain, ()), (joined, parts)):
        await reader.work
        told = [one.payload for one in reader.events if isinstance(one.payload, ArtifactChanged)]
        assert [one.parts for one in told] == [content]


@on_stage(event_retention=50)
@pytest.mark.req("R078", "I29", "X18")
async def test_a_reader_behind_the_retention_is_told_where_the_log_begins(stage: Stage) -> None:
    hand, task = await running(stage)
    for _ in range(20):
        await hand.say(task, *[LINE] * 5)
    floor = (await stage.now(task)).event_floor
    assert floor > 40
    assert len(await stage.log(task)) <= 60
    reader = Reader(stage, task, after=2)
    await hand.say(task, DONE)
    await reader.work
    assert reader.batches[0].truncated
    assert reader.batches[0].oldest == reader.numbers[0] >= floor
    assert not any(batch.truncated for batch in reader.batches[1:])
    assert reader.numbers == list(range(reader.numbers[0], (await stage.now(task)).event_head + 1))


@on_stage()
@pytest.mark.req("R078", "H17")
@pytest.mark.parametrize("after", [-1, 99])
async def test_a_cursor_that_the_log_has_not_reached_is_refused(stage: Stage, after: int) -> None:
    _, task = await running(stage)
    with pytest.raises(CursorInvalid) as refused:
        await stage.core.watch.page(task.id, after, 10)
    assert refused.value.metadata["head"] == str((await stage.now(task)).event_head)
    reader = Reader(stage, task, after)
    with pytest.raises(CursorInvalid):
        await reader.work
    with pytest.raises(TaskNotFound):
        await stage.core.watch.page("task-none", 0, 10)


@on_stage()
@pytest.mark.req("I05", "I28", "R075")
async def test_nobody_sees_an_event_whose_commit_is_not_answered_yet(stage: Stage) -> None:
    hand, task = await running(stage)
    head = (await stage.now(task)).event_head
    stage.answering.clear()
    await hand.say(task, LINE)
    assert len(await stage.log(task)) == head + 1
    reader = Reader(stage, task)
    await stage.settle()
    assert reader.numbers[-1] == head
    stage.answering.set()
    await stage.settle()
    assert reader.numbers == list(range(1, head + 2))
    reader.work.cancel()


@on_stage()
@pytest.mark.req("I30", "I45")
async def test_a_daemon_that_stops_tells_its_readers_to_come_back(stage: Stage) -> None:
    _, task = await running(stage)
    reader = Reader(stage, task)
    await stage.settle()
    await stage.core.stop()
    with pytest.raises(ShuttingDown):
        await reader.work


@on_stage()
@pytest.mark.req("R068", "R069", "R070", "I32")
async def test_the_end_is_told_at_once_and_its_status_comes_first(stage: Stage) -> None:
    hand, task = await running(stage)
    reader = Reader(stage, task)
    await hand.say(task, DONE)
    assert reader.work.done()
    last = [one.payload for one in reader.events[-2:]]
    assert isinstance(last[0], StatusChanged)
    assert last[0].state is S.COMPLETED


@on_stage()
@pytest.mark.req("R060", "R061", "R072", "R073", "R074", "H17", "I39")
async def test_subscriptions_remember_where_they_began_and_whose_they_are(stage: Stage) -> None:
    hand, task = await running(stage)
    subscriptions = stage.core.subscriptions
    fresh, batch = await subscriptions.create(ANN, task.id, (), None, missed=False)
    assert (fresh.after, batch.events) == ((await stage.now(task)).event_head, ())
    await hand.say(task, LINE, LINE)
    head = (await stage.now(task)).event_head
    again, batch = await subscriptions.create(ANN, task.id, (), 1, missed=True)
    assert [one.sequence for one in batch.events] == list(range(2, head + 1))
    assert again.after == head
    assert again.id != fresh.id
    await stage.restart()
    subscriptions = stage.core.subscriptions
    assert await subscriptions.get(ANN, fresh.id) == fresh
    for caller, wanted in ((BOB, fresh.id), (ANN, "sub-none")):
        with pytest.raises(SubscriptionNotFound):
            await subscriptions.get(caller, wanted)
    with pytest.raises(CursorInvalid):
        await subscriptions.create(ANN, task.id, (), head + 1, missed=False)
    with pytest.raises(TaskNotFound):
        await subscriptions.create(BOB, task.id, (), None, missed=False)
    await subscriptions.delete(ANN, fresh.id)
    with pytest.raises(SubscriptionNotFound):
        await subscriptions.get(ANN, fresh.id)
