from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.wire_aios.client import ENDLESS, StreamEvent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient


@pytest.mark.req("R056", "R057", "R076", "R071")
async def test_everything_survives_a_killed_daemon(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient], tmp_path: Path
) -> None:
    stack = start_stack(max_concurrent_tasks=2, max_tasks_per_tool=2)
    aios = connect(stack)
    done = await aios.create(
        {"log": {"level": "info", "message": "one"}},
        {"artifact": {"name": "a", "type": "data", "parts": [{"type": "text", "text": "x"}]}},
    )
    await aios.ended(done)
    asking = await aios.create({"ask": {"prompt": "Which?", "timeout_ms": 600_000}})
    await aios.until(asking, "input_required")
    needing = await aios.create({"auth": {"type": "api_key", "timeout_ms": 600_000}})
    await aios.until(needing, "auth_required")
    paused = await aios.create(ENDLESS)
    await aios.until(paused, "working")
    await aios.call("aios/task.pause", task_id=paused)
    running = [await aios.create({"sleep_ms": 4_000}) for _ in range(2)]
    for task_id in running:
        await aios.until(task_id, "working")
    path = tmp_path / "order"
    waiting = [await aios.create({"touch": str(path)}) for _ in range(3)]
    kept = [done, asking, needing, paused]
    before = [await aios.get(task_id, include_history=True) for task_id in kept]
    told = [await aios.events(task_id) for task_id in kept]
    artifact_id = before[0]["artifacts"][0]["id"]
    artifact = await aios.call("aios/artifact.get", artifact_id=artifact_id)

    stack.kill("daemon")

    assert [await aios.get(task_id, include_history=True) for task_id in kept] == before
    assert [await aios.events(task_id) for task_id in kept] == told
    assert await aios.call("aios/artifact.get", artifact_id=artifact_id) == artifact
    for task_id in running:
        assert (await aios.ended(task_id))["status"] == "completed"
    for task_id in waiting:
        assert (await aios.ended(task_id))["status"] == "completed"
    assert [line.split()[0] for line in path.read_text().splitlines()] == waiting
    await aios.call("aios/task.input", task_id=asking, input={"n": 1})
    assert (await aios.ended(asking))["result"]["inputs"] == [{"n": 1}]
    await aios.call("aios/task.resume", task_id=paused)
    assert await aios.status(paused) == "working"
    await aios.call(
        "aios/task.authenticate",
        task_id=needing,
        auth_response={"type": "api_key", "api_key": "k-123456789"},
    )
    assert (await aios.ended(needing))["status"] == "completed"


@pytest.mark.req("R076", "R075")
@pytest.mark.slow
async def test_a_stream_outlives_a_killed_daemon(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    stack = start_stack()
    aios = connect(stack)
    task_id = await aios.create({"ask": {"prompt": "?"}})
    await aios.until(task_id, "input_required")
    url = await aios.follow(task_id)
    async with aios.stream(url) as events:
        first = await anext(events)
        await asyncio.to_thread(stack.kill, "daemon")
        await aios.call("aios/task.input", task_id=task_id, input={})
        rest = [event async for event in events]
    result = await aios.call("aios/task.resubscribe", task_id=task_id)
    assert [first, *rest] == [StreamEvent(**event) for event in result["missed_events"]]
    assert rest[-1].event == "task.result"


@pytest.mark.req("R079", "R059")
@pytest.mark.slow
async def test_a_subscription_is_known_to_the_next_gateway(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    stack = start_stack()
    aios = connect(stack)
    task_id = await aios.create({"ask": {"prompt": "?"}})
    await aios.until(task_id, "input_required")
    url = await aios.follow(task_id)
    async with aios.stream(url) as events:
        first = await anext(events)
    await aios.http.aclose()
    await asyncio.to_thread(stack.kill, "gateway")
    aios = connect(stack)
    await aios.call("aios/task.input", task_id=task_id, input={})
    rest = await aios.read_stream(url, last_event_id=first.id)
    assert [first, *rest] == await aios.events(task_id)


@pytest.mark.req("R058", "X07")
@pytest.mark.slow
async def test_lost_work_is_never_done_twice(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient], tmp_path: Path
) -> None:
    stack = start_stack()
    aios = connect(stack)
    path = tmp_path / "effects"
    task_id = await aios.create({"touch": str(path)}, {"crash": True})
    task = await aios.ended(task_id, within_s=40)
    assert task["status"] == "failed"
    error = task["error"]
    assert error["code"] == -32004
    assert error["data"]["error_id"] == "AIOS-AGENT-LOST"
    assert error["data"]["reason"] == "agent_lost"
    assert error["data"]["outcome_certainty"] == "uncertain"
    assert error["data"]["retry_policy"] == "manual_review"
    assert (task["outcome_certainty"], task["retry_policy"]) == ("uncertain", "manual_review")
    await asyncio.to_thread(stack.wait_restarted, "lab")
    after = await aios.create()
    await aios.ended(after)
    assert path.read_text().split() == [task_id, "1"]


@pytest.mark.req("R058", "X07")
@pytest.mark.slow
async def test_lost_work_that_may_be_repeated_is(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient], tmp_path: Path
) -> None:
    aios = connect(start_stack())
    task_id = await aios.create(
        {"touch": str(tmp_path / "effects")},
        {"by_attempt": [[{"crash": True}], [{"complete": {"result": "second"}}]]},
        capability_id="lab.script.retry_safe",
    )
    task = await aios.ended(task_id, within_s=40)
    assert (task["status"], task["result"], task["attempt"]) == ("completed", "second", 2)
    changes = [event.data.get("change") for event in await aios.events(task_id)]
    assert "lost" in changes


@pytest.mark.req("R056")
async def test_everything_survives_a_stop_and_a_start(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    stack = start_stack()
    aios = connect(stack)
    task_id = await aios.create({"progress": {"percent": 50}}, metadata={"n": 1})
    await aios.ended(task_id)
    before, told = await aios.get(task_id, include_history=True), await aios.events(task_id)
    await aios.http.aclose()
    await asyncio.to_thread(stack.stop)
    await asyncio.to_thread(stack.start)
    aios = connect(stack)
    assert await aios.get(task_id, include_history=True) == before
    assert await aios.events(task_id) == told
