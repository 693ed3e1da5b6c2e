"""The bounds of one principal as every wire tells them, and that the owner meets none (S-20)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.sdk import connect
from aiosd.sdk.errors import Exhausted
from tests.support.stack import Stack
from tests.support.waiting import eventually
from tests.wire_a2a.raw import BINDINGS, Problem, Raw
from tests.wire_a2a.said import script, send
from tests.wire_aios.client import AiosClient
from tests.wire_openapi.client import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from aiosd.api.v1 import event_pb2
    from aiosd.sdk import Client

pytestmark = pytest.mark.req("S-20")

ASK = {"ask": {"prompt": "?"}}
SCOPES = ("task:create", "task:read", "task:control", "task:input", "webhook:manage")
BURST, OPEN, STREAMS, WEBHOOKS = 12, 3, 2, 2


@pytest.fixture(scope="module")
def small() -> Iterator[Stack]:
    """A service whose bounds are soon met."""
    bounds = {
        "creates_per_second": 1,
        "create_burst": BURST,
        "open_tasks": OPEN,
        "subscriptions": STREAMS,
        "webhooks": WEBHOOKS,
        "artifact_bytes": 1000,
    }
    with (
        TemporaryDirectory(prefix="aiosd-") as directory,
        Stack(
            Path(directory),
            webhook_allow=["127.0.0.0/8"],
            **{f"per_principal.{name}": value for name, value in bounds.items()},
        ) as stack,
    ):
        yield stack


@pytest.fixture
async def clients() -> AsyncIterator[AsyncExitStack]:
    """Closes what a test opened."""
    async with AsyncExitStack() as opened:
        yield opened


async def aios_of(clients: AsyncExitStack, stack: Stack, token: str) -> AiosClient:
    client = AiosClient(stack.http, token)
    clients.push_async_callback(client.close)
    return client


async def native_of(clients: AsyncExitStack, stack: Stack, token: str) -> Client:
    return await clients.enter_async_context(connect(f"unix:{stack.socket}", token))


async def _first(native: Client, task_id: str) -> event_pb2.Event:
    async with native.subscribe(task_id) as events:
        return await anext(events)


@pytest.mark.req("R093")
async def test_open_tasks_beyond_the_bound_are_refused_on_every_wire(
    small: Stack, clients: AsyncExitStack
) -> None:
    token = small.make_token("open", *SCOPES)
    aios = await aios_of(clients, small, token)
    for _ in range(OPEN):
        await aios.create(ASK)
    error = await aios.refused("aios/task.create", capability_id="lab.script")
    assert (error.code, error.data["error_id"]) == (-32006, "AIOS-TASK-QUEUE-FULL")
    assert error.data["retry_after_ms"] == 1000

    api = Api(small, token)
    clients.push_async_callback(api.close)
    answer = await api.ask("POST", "/tasks", json={"capability_id": "lab.script"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")

    raw = Raw(small, token)
    clients.push_async_callback(raw.close)
    for binding in BINDINGS:
        with pytest.raises(Problem) as refused:
            await raw.call(binding, "SendMessage", send(script(ASK)))
        assert refused.value.reason == "RESOURCE_EXHAUSTED", binding

    native = await native_of(clients, small, token)
    with pytest.raises(Exhausted) as exhausted:
        await native.create("lab.script", {"steps": []})
    assert exhausted.value.reason == "QUEUE_FULL"
    assert exhausted.value.metadata == {"limit": f"{OPEN}", "of": "principal"}
    assert exhausted.value.retry_after_ms == 1000


async def test_a_rate_beyond_the_bound_is_refused_on_every_wire_with_the_time_to_wait(
    small: Stack, clients: AsyncExitStack
) -> None:
    token = small.make_token("rate", *SCOPES)
    native = await native_of(clients, small, token)

    async def exhaust() -> Exhausted | None:
        try:
            await native.create("lab.script", {"steps": []}, wait_ms=5000)
        except Exhausted as error:
            return error if error.reason == "RATE_LIMITED" else None
        return None

    error = await eventually(exhaust, within_s=20) or Exhausted("", "", "")
    assert 0 < (error.retry_after_ms or 0) <= 1001
    assert error.metadata["limit"] == "1/s"

    async def refused_here() -> Any:
        """Each try that comes through makes the next one less likely to."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "aios/task.create"}
        aios = await aios_of(clients, small, token)
        params = {"capability_id": "lab.script", "options": {"async": True}}
        answer = await aios.http.post("/aios/rpc", json=body | {"params": params})
        return answer if answer.status_code == 429 else None

    answer = await eventually(refused_here, within_s=20)
    assert answer.json()["error"]["data"]["error_id"] == "AIOS-RATE-LIMITED"
    assert int(answer.headers["retry-after"]) >= 1

    api = Api(small, token)
    clients.push_async_callback(api.close)

    async def refused_there() -> Any:
        answer = await api.ask("POST", "/tasks", json={"capability_id": "lab.script"})
        return answer if answer.status_code == 429 else None

    answer = await eventually(refused_there, within_s=20)
    assert int(answer.headers["retry-after"]) >= 1

    raw = Raw(small, token)
    clients.push_async_callback(raw.close)

    async def refused_by_a2a() -> Any:
        try:
            await raw.call("jsonrpc", "SendMessage", send(script()))
        except Problem as problem:
            return problem if problem.reason == "RESOURCE_EXHAUSTED" else None
        return None

    assert await eventually(refused_by_a2a, within_s=20)
    # Reading and stopping are never held up.
    await native.list(limit=1)


async def test_the_rate_of_one_principal_is_not_that_of_another(
    small: Stack, clients: AsyncExitStack
) -> None:
    busy = await native_of(clients, small, small.make_token("busy", *SCOPES))
    idle = await native_of(clients, small, small.make_token("idle", *SCOPES))
    other = await native_of(clients, small, small.make_token("busy", *SCOPES))

    async def exhaust() -> bool:
        try:
            await busy.create("lab.script", {"steps": []}, wait_ms=5000)
        except Exhausted as error:
            return error.reason == "RATE_LIMITED"
        return False

    await eventually(exhaust, within_s=20)
    await idle.create("lab.script", {"steps": []}, wait_ms=5000)
    with pytest.raises(Exhausted):  # a second token of the same principal
        for _ in range(3):
            await other.create("lab.script", {"steps": []}, wait_ms=5000)


async def test_live_streams_are_bounded_and_free_again_when_they_end(
    small: Stack, clients: AsyncExitStack
) -> None:
    token = small.make_token("streams", *SCOPES)
    native = await native_of(clients, small, token)
    aios = await aios_of(clients, small, token)
    sse = "text/event-stream"
    urls = [await aios.follow(await aios.create(ASK)) for _ in range(STREAMS)]
    task_id = await aios.create(ASK)
    more = await aios.follow(task_id)
    async with AsyncExitStack() as streams:
        # Kept, or the responses would be closed with them.
        live = [await streams.enter_async_context(aios.stream(url)) for url in urls]
        for events in live:
            await anext(events)
        async with aios.http.stream("GET", more, headers={"accept": sse}) as answer:
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
        # The SDK's reader waits for a place.
        waiting = asyncio.ensure_future(_first(native, task_id))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
    assert (await asyncio.wait_for(waiting, 20)).sequence == 1


async def test_webhooks_of_all_open_tasks_are_bounded(
    small: Stack, clients: AsyncExitStack
) -> None:
    aios = await aios_of(clients, small, small.make_token("webhooks", *SCOPES))
    one, two = await aios.create(ASK), await aios.create(ASK)
    params = {"webhook_url": "http://127.0.0.1:9/hook", "events": ["completed"]}
    for task_id in (one, two):
        await aios.call("aios/task.subscribe_webhook", task_id=task_id, **params)
    params["webhook_url"] = "http://127.0.0.1:9/other"
    error = await aios.refused("aios/task.subscribe_webhook", task_id=one, **params)
    assert error.data["limit"] == WEBHOOKS
    await aios.call("aios/task.cancel", task_id=two)
    await aios.call("aios/task.subscribe_webhook", task_id=one, **params)


async def test_a_task_whose_artifact_has_no_room_says_so(
    small: Stack, clients: AsyncExitStack
) -> None:
    native = await native_of(clients, small, small.make_token("bytes", *SCOPES))
    large = {"artifact": {"name": "a", "parts": [{"type": "text", "text": "x" * 1001}]}}
    task = await native.create("lab.script", {"steps": [large]})
    task = await native.wait(task.task_id, 20_000)
    assert "ARTIFACT_QUOTA" in task.failure.message
    assert not task.artifacts


async def test_the_owner_meets_none_of_these_bounds(small: Stack, clients: AsyncExitStack) -> None:
    native = await native_of(clients, small, small.token)
    large = {"artifact": {"name": "a", "parts": [{"type": "text", "text": "x" * 1001}]}}
    made = [await native.create("lab.script", {"steps": [large, ASK]}) for _ in range(2 * BURST)]
    assert len(made) == 2 * BURST > OPEN
    for task in made:
        await native.cancel(task.task_id)
