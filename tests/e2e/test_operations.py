"""Runtime operations over the contract: the SDK's client, a real daemon, the lab's instance."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from aiosd.api.v1 import operation_pb2
from aiosd.sdk import AiosdError, Client, InvalidArgument, NotFound, Provider, Refused, connect
from tests.support.operation_consistency import check_log, check_snapshot, log_of, seen
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.programs import Programs

SCRIPT = "lab.script"
SUCCEEDED = operation_pb2.OPERATION_STATUS_SUCCEEDED


async def finish(client: Client, method: str, params: dict[str, Any]) -> operation_pb2.Operation:
    """Run an operation of the lab to its end, and check all that was seen of it."""
    made = await client.operations.create("lab", method, params)
    check_snapshot(seen(made))
    events = [one async for one in client.operations.subscribe(made.operation_id)]
    check_log(log_of(events), complete=True)
    done = await client.operations.get(made.operation_id)
    assert events[-1].snapshot == done
    return done


async def state_of(client: Client) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((await client.operations.instance("lab")).state)
    return state


@pytest.mark.req("R162", "R163", "R164", "R168", "R169", "R170")
async def test_the_labs_instance_is_controlled(programs: Programs) -> None:
    await programs.daemon()
    await programs.lab()
    async with connect(programs.address) as client:
        (instance,) = await client.operations.instances()
        assert (instance.instance_id, instance.attached, instance.revision) == ("lab", True, 1)
        assert set(instance.methods) == {
            *("model.switch", "session.clear", "mcp.configure", "agent.restart", "lab.script"),
        }
        switched = await finish(client, "model.switch", {"model": "m2"})
        assert (switched.status, switched.projection_revision) == (SUCCEEDED, 2)
        await finish(client, "mcp.configure", {"servers": [{"name": "files"}]})
        await finish(client, "session.clear", {"session": "s1"})
        restarted = await finish(client, "agent.restart", {})
        assert restarted.projection_state == operation_pb2.PROJECTION_STATE_NOT_APPLICABLE
        assert json.loads(restarted.result) == {"restarted": True}
        expected = {"model": "m2", "sessions": [], "mcp_servers": [{"name": "files"}]}
        assert await state_of(client) == expected

        blocked = await finish(client, SCRIPT, {"steps": [{"commit_invalid": 2}]})
        assert blocked.status == SUCCEEDED
        assert await state_of(client) == expected
        failed = await finish(client, SCRIPT, {"steps": [{"fail": {"message": "no"}}]})
        assert (failed.error.code, failed.error.message) == ("RUNTIME_EXECUTION_FAILED", "no")
        wrong = await finish(client, "model.switch", {})
        assert wrong.error.code == "INVALID_INVOCATION"

        first = await client.operations.list(limit=3)
        second = await client.operations.list(limit=50, page_token=first.next_page_token)
        ids = [one.operation_id for one in (*first.operations, *second.operations)]
        assert (len(first.operations), len(ids)) == (3, 7)
        assert ids == sorted(ids, reverse=True)
        with pytest.raises(Refused) as refused:
            await client.operations.cancel(switched.operation_id)
        assert refused.value.reason == "OPERATION_NOT_CANCELLABLE"
        with pytest.raises(Refused) as not_blocked:
            await client.operations.close(switched.operation_id)
        assert not_blocked.value.reason == "OPERATION_NOT_BLOCKED"
        with pytest.raises(AiosdError) as ahead:
            await anext(client.operations.subscribe(switched.operation_id, after=99))
        assert ahead.value.code is grpc.StatusCode.OUT_OF_RANGE
        assert ahead.value.reason == "OPERATION_CURSOR_AHEAD"
        assert ahead.value.metadata["last_sequence"] == str(switched.sequence)


@pytest.mark.req("R167", "R170", "I16")
async def test_a_crash_in_flight_is_of_unknown_outcome_and_a_cancel_is_not(
    programs: Programs,
) -> None:
    await programs.daemon()
    lab = await programs.lab()
    async with connect(programs.address) as client:
        slow = await client.operations.create("lab", SCRIPT, {"steps": [{"sleep_ms": 60_000}]})

        async def runs() -> bool:
            now = await client.operations.get(slow.operation_id)
            return now.status == operation_pb2.OPERATION_STATUS_RUNNING

        await eventually(runs)
        asked = await client.operations.cancel(slow.operation_id, "enough")
        assert asked.cancel_request.reason == "enough"
        stopped = await client.operations.wait(slow.operation_id)
        assert stopped.status == operation_pb2.OPERATION_STATUS_CANCELLED
        crashed = await client.operations.create("lab", SCRIPT, {"steps": [{"crash": True}]})
        await lab.process.wait()
        await programs.lab()
        lost = await client.operations.wait(crashed.operation_id)
        check_snapshot(seen(lost))
        assert lost.status == operation_pb2.OPERATION_STATUS_OUTCOME_UNKNOWN
        assert (lost.error.code, lost.error.retry_mode) == ("OUTCOME_UNKNOWN", "none")


async def test_what_cannot_be_asked_for_is_refused_by_name(programs: Programs) -> None:
    await programs.daemon()
    await programs.lab()
    async with connect(programs.address) as client:
        create = client.operations.create
        for call, reason in (
            (create("lab", "fly"), "METHOD_NOT_SUPPORTED"),
            (create("lab", SCRIPT, scope="moon"), "ARGUMENT_INVALID"),
            (create("lab", SCRIPT, deadline_ms=8 * 86_400_000), "ARGUMENT_INVALID"),
        ):
            with pytest.raises(InvalidArgument) as refused:
                await call
            assert refused.value.reason == reason
        for missing, reason in (
            (create("nobody", SCRIPT), "INSTANCE_NOT_FOUND"),
            (client.operations.instance("nobody"), "INSTANCE_NOT_FOUND"),
            (client.operations.get("nothing"), "OPERATION_NOT_FOUND"),
        ):
            with pytest.raises(NotFound) as unknown:
                await missing
            assert unknown.value.reason == reason


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        (("a:b", {}, None), "hello.instance.instance_id"),
        (("a", {"n": 1}, {"required": ["m"]}), "hello.instance.state"),
        (("a", {}, {"type": 7}), "hello.instance.state_schema"),
    ],
)
async def test_an_instance_that_is_declared_wrongly_is_told_where(
    programs: Programs,
    declared: tuple[str, dict[str, Any], dict[str, Any] | None],
    field: str,
) -> None:
    await programs.daemon()
    instance_id, state, schema = declared
    provider = Provider("wrong")
    provider.instance(instance_id, "Wrong", state, schema)
    async with asyncio.timeout(20):
        with pytest.raises(InvalidArgument) as refused:
            await provider.run(programs.address)
    assert refused.value.violations[0][0] == field
