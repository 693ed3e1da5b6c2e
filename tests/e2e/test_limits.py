"""Bounds of the daemon that are the same for everybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from grpc import aio

from aiosd.adapters.rpc.guard import MOST_CALLS
from aiosd.api.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc
from aiosd.sdk import Exhausted, connect, rpc_status

if TYPE_CHECKING:
    from aiosd.sdk import Client
    from tests.support.programs import Programs

OVER = 40


@pytest.mark.req("S-21")
async def test_open_calls_have_a_bound_that_is_not_that_of_streams(programs: Programs) -> None:
    await programs.daemon()
    await programs.lab()
    async with connect(programs.address, patience_ms=0) as client:
        task = await client.create("lab.script", {"steps": [{"sleep_ms": 600_000}]})
        waits = [asyncio.ensure_future(settled(client, task)) for _ in range(MOST_CALLS + OVER)]
        refused = []
        async with asyncio.timeout(30):
            for wait in asyncio.as_completed(waits):
                with pytest.raises(Exhausted) as caught:
                    await wait
                refused.append(caught.value.reason)
                if len(refused) == OVER:
                    break
        assert set(refused) == {"RATE_LIMITED"}
        async with client.subscribe(task.task_id, after=0) as events:
            assert (await anext(events)).sequence == 1
        open_calls = [wait for wait in waits if not wait.done()]
        assert len(open_calls) == MOST_CALLS
        for wait in open_calls[:10]:
            wait.cancel()
        await canceled(client, task)
        states = {found.state for found in await asyncio.gather(*open_calls[10:])}
        assert states == {task_pb2.TASK_STATE_CANCELED}


async def settled(client: Client, task: task_pb2.Task) -> task_pb2.Task:
    """One call that the daemon answers at the end of the task."""
    request = task_service_pb2.GetTaskRequest(task_id=task.task_id)
    request.wait.FromSeconds(60)
    stub = task_service_pb2_grpc.TaskServiceStub(client.channel)
    try:
        return (await stub.GetTask(request)).task
    except aio.AioRpcError as error:
        raise rpc_status.from_rpc(error) from None


async def canceled(client: Client, task: task_pb2.Task) -> None:
    """Cancel it, once a place is free."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.cancel(task.task_id)
            except Exhausted:
                await asyncio.sleep(0.02)
            else:
                return
