"""Runtime operations from the request to the end, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiosd.application.access import SCOPES, Caller
from aiosd.application.errors import (
    InstanceNotFound,
    MethodNotSupported,
    OperationCursorAhead,
    OperationNotFound,
    PermissionDenied,
    QueueFull,
    RequestIdConflict,
)
from aiosd.application.ports import OperationQuery
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.instance import Declaration
from aiosd.domain.operation_lifecycle import OperationNotBlocked, OperationNotCancellable
from tests.application.runtime_world import OWNER, RuntimeWorld, in_world
from tests.support.operation_consistency import check_log, log_of

EFFECT = (["sleep", 10], ["effect"], ["commit", {"n": 5}])
BAD = '{"n":"five"}'


@in_world
@pytest.mark.req("R163", "R168", "R169")
async def test_an_operation_goes_all_the_way_to_the_projected_state(world: RuntimeWorld) -> None:
    made = await world.create(["progress", "half"], *EFFECT)
    done = await world.end(made)
    assert (done.status.word, done.projection_revision, done.result) == ("succeeded", 2, '"done"')
    instance = world.daemon.instances.get("runtime")
    assert (instance.state, instance.revision) == ('{"n": 5}', 2)
    assert [str(one.type) for one in await world.log(made)] == [
        "runtime_operation_started",
        "runtime_operation_progress",
        "runtime_effect_committed",
        "runtime_projection_pending",
        "runtime_projection_synced",
        "runtime_rpc_response",
    ]
    assert done.progress is not None
    assert (done.progress.sequence, done.progress.phase) == (2, "half")


@in_world
@pytest.mark.req("R167")
async def test_operations_of_an_instance_run_one_after_the_other(world: RuntimeWorld) -> None:
    first = await world.create(["sleep", 300])
    second = await world.create(["sleep", 1])
    await world.status(first, "running")
    assert (await world.get(second)).status.word == "queued"
    await world.end(second)
    assert (await world.get(first)).terminal


@in_world
@pytest.mark.req("R164", "R165")
async def test_a_blocked_projection_recovers_when_a_good_state_is_reported(
    world: RuntimeWorld,
) -> None:
    made = await world.create(["report", BAD], ["sleep", 50], ["commit", {"n": 6}])
    blocked = await world.status(made, "projection_blocked")
    assert blocked.error is not None
    assert (blocked.error.code, blocked.error.retry_mode) == ("PROJECTION_BLOCKED", "resume")
    assert "n: must be an integer" in blocked.error.message
    assert world.daemon.instances.get("runtime").revision == 1
    done = await world.end(made)
    assert (done.status.word, done.error) == ("succeeded", None)
    assert world.daemon.instances.get("runtime").state == '{"n": 6}'
    await world.log(made)


@in_world
@pytest.mark.req("R164", "Y10")
async def test_a_blocked_projection_recovers_by_a_newer_state_of_the_instance(
    world: RuntimeWorld,
) -> None:
    blocked = await world.create(["report", BAD])
    await world.status(blocked, "projection_blocked")
    after = await world.create(["commit", {"n": 8}])
    done = await world.end(after)
    assert (await world.end(blocked)).projection_revision == done.projection_revision == 2
    again = await world.create(["report", "no JSON at all"])
    await world.status(again, "projection_blocked")
    world.instance.kill()
    world.instance.start(n=9)
    assert (await world.end(again)).projection_revision == 3


@in_world
@pytest.mark.req("R164", "Y10")
async def test_an_operator_closes_a_blocked_projection(world: RuntimeWorld) -> None:
    made = await world.create(["report", BAD])
    await world.status(made, "projection_blocked")
    closed = await world.daemon.operations.close(OWNER, made)
    assert (closed.status.word, closed.terminal) == ("projection_blocked", True)
    with pytest.raises(OperationNotBlocked):
        await world.daemon.operations.close(OWNER, made)
    await world.log(made)


@in_world
@pytest.mark.req("R170", "Y14")
async def test_cancel_stops_what_has_no_effect_yet(world: RuntimeWorld) -> None:
    running = await world.create(["sleep", 5_000], ["effect"])
    queued = await world.create(["effect"])
    await world.status(running, "running")
    operations = world.daemon.operations
    assert (await operations.cancel(OWNER, queued, "")).status.word == "cancelled"
    asked = await operations.cancel(OWNER, running, "enough")
    assert asked.status.word == "running"
    assert asked.cancel_request is not None
    assert (asked.cancel_request.requested_by, asked.cancel_request.reason) == ("owner", "enough")
    assert (await world.end(running)).status.word == "cancelled"
    assert not world.effects
    for one in (running, queued):
        await world.log(one)


@in_world
@pytest.mark.req("R170", "Y14")
async def test_cancel_after_the_commit_is_refused_and_changes_nothing(world: RuntimeWorld) -> None:
    made = await world.create(["report", BAD])
    before = await world.status(made, "projection_blocked")
    with pytest.raises(OperationNotCancellable):
        await world.daemon.operations.cancel(OWNER, made, "")
    assert await world.get(made) == before


@in_world
@pytest.mark.req("R167", "Y12", "I16")
async def test_a_lost_instance_leaves_the_outcome_unknown_and_is_not_asked_again(
    world: RuntimeWorld,
) -> None:
    made = await world.create(["effect"], ["sleep", 5_000])
    await world.until(made, lambda _: bool(world.effects[made]))
    world.instance.kill()
    world.instance.start()
    done = await world.end(made)
    assert (done.status.word, done.error and done.error.code) == (
        "outcome_unknown",
        "OUTCOME_UNKNOWN",
    )
    await world.end(await world.create(["sleep", 1]))
    assert (world.told[made], world.effects[made]) == (1, 1)


@in_world
@pytest.mark.req("R167", "I19")
async def test_a_daemon_that_restarts_leaves_running_operations_alone(world: RuntimeWorld) -> None:
    running = await world.create(["sleep", 500], ["effect"], ["commit", {"n": 7}])
    queued = await world.create(*EFFECT)
    await world.status(running, "running")
    world.kill_daemon()
    await asyncio.sleep(0.3)
    world.start_daemon()
    assert (await world.end(running)).status.word == "succeeded"
    assert (await world.end(queued)).status.word == "succeeded"
    assert (world.told[running], world.effects[running]) == (1, 1)


@in_world
@pytest.mark.req("R163", "R165")
async def test_a_report_that_met_no_daemon_is_taken_by_the_next_one(world: RuntimeWorld) -> None:
    made = await world.create(["sleep", 200], ["effect"], ["commit", {"n": 7}])
    await world.status(made, "running")
    world.kill_daemon()
    await asyncio.sleep(0.5)
    assert (await world.get(made)).status.word == "running"
    world.start_daemon()
    assert (await world.end(made)).status.word == "succeeded"
    assert world.daemon.instances.get("runtime").state == '{"n": 7}'


@in_world
@pytest.mark.req("R167")
async def test_an_instance_that_does_not_come_back_after_a_restart_is_lost(
    world: RuntimeWorld,
) -> None:
    made = await world.create(["effect"], ["sleep", 60_000])
    await world.status(made, "running")
    world.kill_daemon()
    world.instance.kill()
    world.start_daemon()
    assert (await world.end(made)).status.word == "outcome_unknown"


@in_world
async def test_queued_operations_wait_for_an_instance_that_is_away(world: RuntimeWorld) -> None:
    world.instance.kill()
    made = await world.create(*EFFECT)
    await asyncio.sleep(60)
    assert (await world.get(made)).status.word == "queued"
    world.instance.start()
    assert (await world.end(made)).status.word == "succeeded"


@in_world
async def test_a_method_that_was_dropped_while_it_waited_fails_it(world: RuntimeWorld) -> None:
    world.instance.kill()
    made = await world.create(method="other")
    world.instance.methods = ("script",)  # type: ignore[assignment]
    world.instance.start()
    done = await world.end(made)
    assert (done.status.word, done.error and done.error.code) == ("failed", "METHOD_NOT_SUPPORTED")


@in_world
async def test_a_reattached_instance_with_another_state_is_a_new_revision(
    world: RuntimeWorld,
) -> None:
    await world.end(await world.create(*EFFECT))
    assert world.daemon.instances.get("runtime").revision == 2
    world.instance.disconnect()
    await asyncio.sleep(0.5)
    assert world.daemon.instances.get("runtime").revision == 2
    world.instance.kill()
    world.instance.start(n=1, more=True)
    await asyncio.sleep(0.5)
    instance = world.daemon.instances.get("runtime")
    assert (instance.revision, instance.state) == (3, '{"n": 1, "more": true}')
    world.instance.kill()
    world.instance.start(n="bad")
    await asyncio.sleep(0.5)
    assert world.daemon.instances.get("runtime").revision == 3


@in_world
async def test_a_second_state_of_one_operation_is_news_of_the_instance(world: RuntimeWorld) -> None:
    made = await world.create(["commit", {"n": 5}], ["commit", {"m": 6}])
    assert (await world.end(made)).projection_revision == 2
    await asyncio.sleep(0.1)
    instance = world.daemon.instances.get("runtime")
    assert (instance.state, instance.revision) == ('{"n": 5, "m": 6}', 3)


@in_world
@pytest.mark.req("R168", "R078")
async def test_events_are_replayed_and_followed_to_the_end(world: RuntimeWorld) -> None:
    made = await world.create(["sleep", 200], ["progress", "half"], *EFFECT)

    async def follow(after: int) -> list[Any]:
        found: list[Any] = []
        async for batch in world.daemon.operations.follow(OWNER, made, after):
            found += batch
        return found

    live = await follow(0)
    check_log(log_of(live), complete=True)
    assert live == await world.log(made)
    assert await follow(3) == live[3:]
    assert await follow(len(live)) == []
    with pytest.raises(OperationCursorAhead) as ahead:
        await follow(len(live) + 1)
    assert ahead.value.metadata["last_sequence"] == str(len(live))


@in_world
@pytest.mark.req("I03", "I04")
async def test_a_key_makes_one_operation(world: RuntimeWorld) -> None:
    one, other = await asyncio.gather(
        world.create(["sleep", 1], request_id="k"), world.create(["sleep", 1], request_id="k")
    )
    assert one == other
    with pytest.raises(RequestIdConflict):
        await world.create(["sleep", 2], request_id="k")
    world.instance.kill()  # its heartbeats would take a while
    await asyncio.sleep(25 * 3_600)
    assert await world.create(["sleep", 2], request_id="k") != one


@in_world
async def test_what_cannot_be_done_is_refused_at_the_door(world: RuntimeWorld) -> None:
    with pytest.raises(InstanceNotFound):
        await world.create(target_id="nobody")
    with pytest.raises(MethodNotSupported) as refused:
        await world.create(method="fly")
    assert refused.value.metadata["field"] == "method"
    for options, field in (
        ({"scope": "moon"}, "target.scope"),
        ({"target_id": ""}, "target.id"),
        ({"method": "x" * 129}, "method"),
        ({"request_id": "x" * 129}, "request_id"),
    ):
        with pytest.raises(ArgumentInvalid) as invalid:
            await world.create(**options)
        assert invalid.value.field == field
    with pytest.raises(OperationNotFound):
        await world.daemon.operations.get(OWNER, "nothing")


@in_world
async def test_agents_and_conversations_are_found_through_their_instance(
    world: RuntimeWorld,
) -> None:
    for target in ("runtime:main", "runtime", "main"):
        made = await world.create(scope="agent", target_id=target)
        assert (await world.end(made)).request.instance_id == "runtime"
    with pytest.raises(InstanceNotFound):
        await world.create(scope="conversation", target_id="elsewhere:main")


@in_world
@pytest.mark.req("R019", "S-18")
async def test_operations_of_others_are_not_there(world: RuntimeWorld) -> None:
    made = await world.create(["sleep", 1])
    stranger, operations = Caller("stranger", SCOPES), world.daemon.operations
    for call in (
        operations.get(stranger, made),
        operations.cancel(stranger, made, ""),
        operations.close(stranger, made),
    ):
        with pytest.raises(OperationNotFound):
            await call
    assert not await operations.list(stranger, OperationQuery())
    assert [one.id for one in await operations.list(OWNER, OperationQuery())] == [made]
    with pytest.raises(PermissionDenied):
        await operations.get(Caller("owner"), made)


@in_world
async def test_the_queue_of_an_instance_is_bounded(world: RuntimeWorld) -> None:
    await world.status(await world.create(["sleep", 60_000]), "running")
    for _ in range(20):
        await world.create()
    with pytest.raises(QueueFull):
        await world.create()


@in_world
async def test_an_instance_is_declared_well_or_not_at_all(world: RuntimeWorld) -> None:
    instances = world.daemon.instances
    with pytest.raises(PermissionDenied):
        instances.check(Declaration("runtime", "", '{"n":1}', "", ()), "stranger")
    for schema, state, field in (
        ("broken", '{"n":1}', "state_schema"),
        ("{}", '{"n":"x"}', "state"),
    ):
        with pytest.raises(ArgumentInvalid) as invalid:
            instances.check(Declaration("new", "", state, schema, ()), "owner")
        assert invalid.value.field == f"hello.instance.{field}"
