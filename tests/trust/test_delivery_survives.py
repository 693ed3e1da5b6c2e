"""Deliveries across crashes, and beside receivers that are dead, slow or hostile."""

from __future__ import annotations

import asyncio
import json
import time
from statistics import quantiles
from typing import TYPE_CHECKING

import pytest

from tests.support.raw_receiver import Receiver, answering, dripping, endless, hang
from tests.support.waiting import eventually
from tests.trust.conftest import ctl_of
from tests.trust.webhook_calls import answer, subscribe, waiting_task
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack


@pytest.fixture
async def client(own_stack: Stack) -> AsyncIterator[AiosClient]:
    made = AiosClient(own_stack.http, own_stack.token)
    yield made
    await made.close()


@pytest.mark.req("R133", "I33")
async def test_what_was_not_delivered_is_delivered_after_kill_9(
    own_stack: Stack, client: AiosClient, receiver: Receiver
) -> None:
    port = receiver.port
    await receiver.stop()
    task_id = await waiting_task(client, {"complete": {"result": "kept"}})
    policy = {"max_retries": 20, "retry_delay_ms": 500}
    await subscribe(client, task_id, receiver.url, retry_policy=policy)
    await answer(client, task_id)
    await client.ended(task_id)
    await asyncio.to_thread(own_stack.kill, "daemon")
    await receiver.start(port)

    async def arrived() -> bool:
        return bool(receiver.posted)

    await eventually(arrived)
    assert json.loads(receiver.posted[0].body)["data"]["result"] == "kept"
    ctl = ctl_of(own_stack)

    async def succeeded() -> bool:
        _, found = await ctl("webhooks", "deliveries", "--task", task_id)
        return [one["state"] for one in found] == ["succeeded"]

    await eventually(succeeded)
    code, verified = await ctl("audit", "verify")
    assert (code, verified["problem"]) == (0, "")


@pytest.mark.req("H24", "I35", "R130", "S-26")
async def test_hostile_receivers_delay_neither_the_next_one_nor_the_tasks(
    aios: AiosClient, receiver: Receiver, stack: Stack
) -> None:
    behaviours = [hang, endless, dripping, answering(500), answering(302)] * 2
    hostile = [Receiver(behave) for behave in behaviours]
    for one in hostile:
        await one.start()
    try:
        steps = [{"log": {"level": "info", "message": str(number)}} for number in range(30)]
        tasks = []
        for target in (*hostile, receiver):
            task_id = await waiting_task(aios, *steps)
            await subscribe(aios, task_id, target.url, events=["log"])
            tasks.append(task_id)
        memory = resident_kib(stack.pids["daemon"])
        await asyncio.gather(*(answer(aios, task_id) for task_id in tasks))
        delays = []
        for _ in range(20):
            began = time.monotonic()
            await aios.create({"complete": {}})
            delays.append(time.monotonic() - began)

        async def all_there() -> bool:
            return len(receiver.posted) >= 30

        await eventually(all_there, within_s=10)
        posted = [json.loads(one.body)["data"]["message"] for one in receiver.posted]
        assert posted == [str(number) for number in range(30)]
        assert quantiles(delays, n=20)[-1] < 5
        assert resident_kib(stack.pids["daemon"]) - memory < 64 * 1024
    finally:
        for one in hostile:
            await one.stop()
        for task_id in tasks:
            for one in (*hostile, receiver):
                await aios.call(
                    "aios/task.unsubscribe_webhook", task_id=task_id, webhook_url=one.url
                )


def resident_kib(pid: int) -> int:
    """Memory of a process."""
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1])
