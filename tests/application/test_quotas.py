"""What one principal may hold, and how fast it may make more (S-20)."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from aiosd.application.creation import NewTask
from aiosd.application.errors import QueueFull, RateLimited, TaskNotFound, TooManyWebhooks
from aiosd.application.messages import Completed, Refused
from aiosd.application.quotas import Quota
from aiosd.application.retention import HOUR_MS
from aiosd.application.webhook_request import NewWebhook
from aiosd.domain.artifact import Chunk
from aiosd.domain.content import Part, PartKind
from aiosd.domain.state import TaskState
from tests.application.stage import ANN, BOB, OWNER, Hand, Stage, on_stage

pytestmark = pytest.mark.req("S-20")


def a_chunk(size: int, artifact_id: str = "a", *, append: bool = False) -> Chunk:
    part = Part(PartKind.RAW, raw=b"x" * size)
    return Chunk(artifact_id, (part,), append, last=False, digest=f"{artifact_id}-{size}")


def a_webhook(number: int) -> NewWebhook:
    return NewWebhook(url=f"https://receiver.example/{number}", webhook_id=f"w-{number}")


def test_the_defaults_are_those_of_the_specification() -> None:
    quota = Quota()
    assert (quota.creates_per_second, quota.create_burst) == (50, 100)
    assert (quota.open_tasks, quota.artifact_bytes) == (10_000, 1024**3)
    assert (quota.subscriptions, quota.webhooks) == (64, 100)


@on_stage(creates_per_second=10, create_burst=5)
async def test_a_burst_passes_and_then_a_steady_rate(stage: Stage) -> None:
    quotas = stage.core.quotas
    for _ in range(5):
        quotas.spend("ann")
    with pytest.raises(RateLimited) as refused:
        quotas.spend("ann")
    wait = int(refused.value.metadata["retry_after_ms"])
    assert 90 <= wait <= 101
    quotas.spend("bob", 5)
    await stage.pass_time(wait)
    quotas.spend("ann")
    with pytest.raises(RateLimited):
        quotas.spend("ann")
    await stage.pass_time(60_000)
    quotas.spend("ann", 5)
    with pytest.raises(RateLimited):
        quotas.spend("ann")


@on_stage(creates_per_second=10, create_burst=5)
async def test_more_at_once_than_a_burst_needs_a_whole_one(stage: Stage) -> None:
    quotas = stage.core.quotas
    quotas.spend("ann", 1)
    with pytest.raises(RateLimited) as refused:
        quotas.spend("ann", 50)
    await stage.pass_time(int(refused.value.metadata["retry_after_ms"]))
    quotas.spend("ann", 50)


@on_stage(creates_per_second=1, create_burst=1, open_tasks=1, subscriptions=1, webhooks=1)
async def test_the_owner_of_the_daemon_is_not_counted(stage: Stage) -> None:
    quotas = stage.core.quotas
    with ExitStack() as streams:
        for number in range(3):
            quotas.spend(OWNER.principal)
            webhooks = (a_webhook(1), a_webhook(2))
            task = await stage.create(caller=OWNER, request_id=f"{number}", webhooks=webhooks)
            quotas.check_webhook(task, 100)
            streams.enter_context(quotas.subscription(OWNER.principal))
    assert quotas.artifact_room(OWNER.principal) is None


@pytest.mark.req("R093")
@on_stage(open_tasks=2)
async def test_a_principal_has_so_many_open_tasks_and_another_has_its_own(stage: Stage) -> None:
    first = await stage.create()
    await stage.create()
    with pytest.raises(QueueFull) as refused:
        await stage.create()
    assert refused.value.metadata == {"limit": "2", "of": "principal"}
    await stage.create(caller=BOB)
    await stage.core.control.cancel(ANN, first.id, "")
    await stage.create()
    with pytest.raises(QueueFull):
        await stage.create()


@on_stage(open_tasks=2)
async def test_open_tasks_are_counted_over_a_restart_and_when_a_commit_fails(stage: Stage) -> None:
    await stage.create()
    stage.faults.append("full")
    with pytest.raises(Exception, match="full"):
        await stage.create()
    await stage.restart()
    await stage.create()
    with pytest.raises(QueueFull):
        await stage.create()


@on_stage(open_tasks=1)
async def test_a_known_key_is_answered_although_there_is_no_room(stage: Stage) -> None:
    first = await stage.create(request_id="k")
    again, created = await stage.core.creation.create(
        ANN, NewTask("demo.work", request_id="k", options=first.options, retry_named=True)
    )
    assert (again.id, created) == (first.id, False)


@on_stage(artifact_bytes=100)
async def test_a_chunk_without_room_is_refused_and_the_task_goes_on(stage: Stage) -> None:
    hand = await Hand(stage, "s").attach()
    task = await stage.create()
    await hand.say(task, a_chunk(60), a_chunk(50, append=True), a_chunk(41, "b"))
    assert [one.reason for one in hand.heard(Refused)] == ["ARTIFACT_QUOTA", "ARTIFACT_QUOTA"]
    await hand.say(task, a_chunk(40, append=True), Completed("{}"))
    assert stage.core.quotas.artifact_room(ANN.principal) == 0
    assert (await stage.store.artifacts(task.id))[0].size_bytes == 100


@on_stage(artifact_bytes=100)
async def test_a_repetition_needs_no_room_and_a_new_version_only_the_difference(
    stage: Stage,
) -> None:
    hand = await Hand(stage, "s").attach()
    task = await stage.create()
    await hand.say(task, a_chunk(90), a_chunk(90), a_chunk(95), a_chunk(20))
    assert not hand.heard(Refused)
    assert stage.core.quotas.artifact_room(ANN.principal) == 80


@on_stage(artifact_bytes=100, task_retention_hours=1)
async def test_artifacts_count_over_a_restart_until_their_task_is_forgotten(stage: Stage) -> None:
    hand = await Hand(stage, "s").attach()
    task = await stage.create()
    await hand.say(task, a_chunk(70))
    await stage.core.control.cancel(ANN, task.id, "")
    await hand.detach()
    await stage.restart()
    assert stage.core.quotas.artifact_room(ANN.principal) == 30
    await stage.pass_time(2 * HOUR_MS)
    with pytest.raises(TaskNotFound):
        await stage.now(task)
    assert stage.core.quotas.artifact_room(ANN.principal) == 100


@on_stage(webhooks=3)
async def test_webhooks_of_open_tasks_are_bounded_over_all_tasks(stage: Stage) -> None:
    webhooks = stage.core.webhooks
    one = await stage.create(webhooks=(a_webhook(1), a_webhook(2)))
    two = await stage.create()
    await webhooks.create(ANN, two.id, a_webhook(3))
    for number in (4, 5):
        with pytest.raises(TooManyWebhooks):
            await webhooks.create(ANN, two.id, a_webhook(number))
    with pytest.raises(TooManyWebhooks):
        await stage.create(webhooks=(a_webhook(1),))
    await webhooks.create(ANN, two.id, a_webhook(3))  # again, the same
    assert await webhooks.delete(ANN, one.id, webhook_id="w-1") == 1
    await webhooks.create(ANN, two.id, a_webhook(4))
    await stage.restart()
    with pytest.raises(TooManyWebhooks):
        await stage.core.webhooks.create(ANN, two.id, a_webhook(5))
    await stage.core.control.cancel(ANN, one.id, "")
    await stage.core.webhooks.create(ANN, two.id, a_webhook(5))


@on_stage(subscriptions=2)
async def test_live_streams_are_bounded_and_what_ended_counts_no_more(stage: Stage) -> None:
    quotas = stage.core.quotas
    with quotas.subscription("ann"):
        with quotas.subscription("ann"), pytest.raises(RateLimited), quotas.subscription("ann"):
            pass
        with quotas.subscription("ann"), quotas.subscription("bob"):
            pass


@on_stage(open_tasks=2)
async def test_a_task_that_waits_or_works_is_open(stage: Stage) -> None:
    hand = await Hand(stage, "s").attach()
    task = await stage.create()
    await stage.create()
    assert (await stage.now(task)).state is TaskState.WORKING
    with pytest.raises(QueueFull):
        await stage.create()
    await hand.say(task, Completed("{}"))
    await stage.create()
