"""Webhooks that come with the task: nothing of it can happen unseen (R124, R128, S-18)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grpc
import pytest

from aiosd.api.v1 import (
    task_service_pb2,
    task_service_pb2_grpc,
    webhook_pb2,
    webhook_service_pb2,
    webhook_service_pb2_grpc,
)
from aiosd.sdk import connect
from tests.support.waiting import eventually
from tests.trust.webhook_calls import posts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiosd.sdk import Client
    from tests.support.raw_receiver import Receiver
    from tests.support.stack import Stack

SECRET = "a-secret-of-enough-characters"


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[Client]:
    async with connect(f"unix:{stack.socket}") as connected:
        yield connected


def request(url: str, *steps: object, **members: object) -> task_service_pb2.CreateTaskRequest:
    return task_service_pb2.CreateTaskRequest(
        capability_id="lab.script",
        arguments=json.dumps({"steps": steps}),
        webhooks=[webhook_pb2.Webhook(url=url, secret=SECRET, **members)],
    )


@pytest.mark.req("R124", "R128")
async def test_the_first_event_is_posted_too(client: Client, receiver: Receiver) -> None:
    stub = task_service_pb2_grpc.TaskServiceStub(client.channel)
    made = await stub.CreateTask(request(receiver.url, {"complete": {"result": 1}}))
    posted = await posts(receiver, 4)
    bodies = [json.loads(one.body) for one in posted]
    statuses = [one["data"]["status"] for one in bodies if one["event"] == "task.status"]
    assert statuses == ["pending", "working", "completed"]
    assert {one["task_id"] for one in bodies} == {made.task.task_id}


@pytest.mark.req("R132", "S-22")
async def test_a_task_with_a_forbidden_webhook_is_not_made(client: Client) -> None:
    stub = task_service_pb2_grpc.TaskServiceStub(client.channel)
    before = await client.list()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.CreateTask(request("https://10.0.0.1/"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    after = await client.list()
    assert [one.task_id for one in after.tasks] == [one.task_id for one in before.tasks]


@pytest.mark.req("S-27")
async def test_the_content_of_an_artifact_is_never_posted(
    client: Client, receiver: Receiver
) -> None:
    stub = task_service_pb2_grpc.TaskServiceStub(client.channel)
    parts = [{"type": "text", "text": "the content itself"}]
    await stub.CreateTask(request(receiver.url, {"artifact": {"name": "a.txt", "parts": parts}}))
    posted = await posts(receiver, 5)
    assert any(one.headers["x-aios-event"] == "task.artifact" for one in posted)
    assert all(b"the content itself" not in one.body for one in posted)


async def test_the_trace_of_the_task_goes_along(client: Client, receiver: Receiver) -> None:
    stub = task_service_pb2_grpc.TaskServiceStub(client.channel)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await stub.CreateTask(
        request(receiver.url, events=["completed"]), metadata=(("traceparent", trace),)
    )
    (posted,) = await posts(receiver, 1)
    assert posted.headers["traceparent"].split("-")[1] == trace.split("-")[1]


@pytest.mark.req("S-20")
async def test_a_task_has_ten_webhooks_at_most(client: Client, receiver: Receiver) -> None:
    task = await client.create("lab.script", {"steps": [{"ask": {"prompt": "?"}}]})
    stub = webhook_service_pb2_grpc.WebhookServiceStub(client.channel)

    async def register(number: int) -> None:
        webhook = webhook_pb2.Webhook(task_id=task.task_id, url=f"{receiver.url}/{number}")
        await stub.CreateWebhook(webhook_service_pb2.CreateWebhookRequest(webhook=webhook))

    for number in range(10):
        await register(number)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await register(10)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await register(9)
    await client.cancel(task.task_id)


async def test_deliveries_are_paged(client: Client, receiver: Receiver) -> None:
    tasks = task_service_pb2_grpc.TaskServiceStub(client.channel)
    stub = webhook_service_pb2_grpc.WebhookServiceStub(client.channel)
    made = await tasks.CreateTask(request(receiver.url, {"complete": {}}))
    await posts(receiver, 4)

    async def all_done() -> bool:
        found = await stub.ListDeliveries(
            webhook_service_pb2.ListDeliveriesRequest(task_id=made.task.task_id)
        )
        done = webhook_pb2.DELIVERY_STATE_SUCCEEDED
        return [one.state for one in found.deliveries] == [done] * len(receiver.posted)

    await eventually(all_done)
    seen, token = [], ""
    while True:
        page = await stub.ListDeliveries(
            webhook_service_pb2.ListDeliveriesRequest(
                task_id=made.task.task_id, page_size=2, page_token=token
            )
        )
        seen += [one.sequence for one in page.deliveries]
        token = page.next_page_token
        if not token:
            break
    assert len(seen) == len(receiver.posted)
    assert seen == sorted(seen, reverse=True)
