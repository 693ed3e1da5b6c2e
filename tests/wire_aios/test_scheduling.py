from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import eventually
from tests.wire_aios.client import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient


async def working(aios: AiosClient) -> set[str]:
    result = await aios.call(
        "aios/task.list", filter={"status": ["working"]}, pagination={"limit": 200}
    )
    return {row["task_id"] for row in result["tasks"]}


@pytest.mark.req("R089", "R090", "R036")
async def test_higher_priority_first_and_then_the_older(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient], tmp_path: Path
) -> None:
    aios = connect(start_stack(max_concurrent_tasks=1, max_tasks_per_tool=1))
    first = await aios.create(ENDLESS)
    await aios.until(first, "working")
    path = tmp_path / "order"
    made: dict[str, list[str]] = {"low": [], "normal": [], "high": [], "urgent": []}
    for _ in range(2):
        for priority, ids in made.items():
            ids.append(await aios.create({"touch": str(path)}, priority=priority))
    await aios.call("aios/task.cancel", task_id=first)
    for ids in made.values():
        for task_id in ids:
            await aios.ended(task_id)
    started = [line.split()[0] for line in path.read_text().splitlines()]
    assert started == [*made["urgent"], *made["high"], *made["normal"], *made["low"]]


@pytest.mark.req("R091", "R101", "X08")
@pytest.mark.slow
async def test_never_more_than_the_limit_are_working_and_waiting_tasks_hold_no_slot(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(max_concurrent_tasks=2))
    ids = [await aios.create(ENDLESS) for _ in range(4)]

    async def two() -> bool:
        return await working(aios) == set(ids[:2])

    await eventually(two)
    assert await aios.status(ids[2]) == "pending"
    await aios.call("aios/task.pause", task_id=ids[0])
    await aios.until(ids[2], "working")
    assert len(await working(aios)) == 2
    resumed = await aios.call("aios/task.resume", task_id=ids[0])
    assert (resumed["status"], resumed["resume_pending"]) == ("paused", True)
    await aios.call("aios/task.cancel", task_id=ids[1])
    await aios.until(ids[0], "working")
    assert await aios.status(ids[3]) == "pending"


@pytest.mark.req("R092", "X39", "X40")
@pytest.mark.slow
async def test_a_tool_that_is_full_does_not_block_others(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(max_concurrent_tasks=5, max_tasks_per_tool=2))
    mine = [await aios.create(ENDLESS, priority="high") for _ in range(3)]
    other = await aios.create(ENDLESS, capability_id="lab.other.script", priority="low")
    await aios.until(other, "working")
    await aios.until(mine[0], "working")
    await aios.until(mine[1], "working")
    assert await working(aios) == {mine[0], mine[1], other}
    assert await aios.status(mine[2]) == "pending"


@pytest.mark.req("R093", "R094", "R104")
@pytest.mark.slow
async def test_a_full_queue_refuses_and_takes_again_when_it_has_drained(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(max_concurrent_tasks=1, max_tasks_per_tool=1, max_queue_size=2))
    running = await aios.create(ENDLESS)
    await aios.until(running, "working")
    waiting = [await aios.create(ENDLESS) for _ in range(2)]
    total = (await aios.call("aios/task.list"))["total"]
    error = await aios.refused(
        "aios/task.create", capability_id="lab.script", options={"async": True}
    )
    assert (*error.brief, error.data["error_id"]) == (
        -32006,
        "Task queue full",
        "AIOS-TASK-QUEUE-FULL",
    )
    assert (await aios.call("aios/task.list"))["total"] == total
    await aios.call("aios/task.cancel", task_id=waiting[0])
    await aios.create()
    agreed = await aios.call(
        "aios/initialize",
        protocol_version="0.3.0",
        client_info={"name": "test", "version": "1"},
    )
    limits = agreed["capabilities"]["limits"]
    assert (limits["max_concurrent_tasks"], limits["max_tasks_per_tool"]) == (1, 1)
    assert limits["max_queue_size"] == 2
    assert agreed["protocol_version"] == "0.3.0"


@pytest.mark.req("R095", "R096", "R098", "R102")
async def test_a_task_over_its_time_fails_and_is_stopped(aios: AiosClient, tmp_path: Path) -> None:
    path = tmp_path / "late"
    task_id = await aios.create({"sleep_ms": 700}, {"touch": str(path)}, timeout_ms=300)
    task = await aios.ended(task_id)
    error = task["error"]
    assert (task["status"], error["code"], error["message"]) == ("failed", -32005, "Timeout")
    data = error["data"]
    assert (data["capability_id"], data["timeout_ms"]) == ("lab.script", 300)
    assert data["elapsed_ms"] >= 300
    assert task["failed_at"]
    probe = await aios.create({"sleep_ms": 900})
    await aios.ended(probe)
    assert not path.exists()


@pytest.mark.req("R096", "X05")
async def test_only_working_time_counts(aios: AiosClient) -> None:
    task_id = await aios.create(
        {"ask": {"prompt": "?"}}, {"sleep_ms": 100}, {"ask": {"prompt": "!"}}, timeout_ms=2000
    )
    for _ in range(2):
        await aios.until(task_id, "input_required")
        probe = await aios.create({"sleep_ms": 1200})
        await aios.ended(probe)
        await aios.call("aios/task.input", task_id=task_id, input={})
    assert (await aios.ended(task_id))["status"] == "completed"


@pytest.mark.req("R097", "X05")
async def test_without_a_timeout_the_capabilitys_applies(aios: AiosClient) -> None:
    task = await aios.ended(await aios.create(ENDLESS, capability_id="lab.script.brief"))
    assert (task["status"], task["error"]["code"]) == ("failed", -32005)
    assert task["error"]["data"]["timeout_ms"] == 500
    patient = await aios.create(
        {"sleep_ms": 800}, capability_id="lab.script.brief", timeout_ms=5000
    )
    assert (await aios.ended(patient))["status"] == "completed"


@pytest.mark.req("R097")
@pytest.mark.slow
async def test_without_any_timeout_the_setting_applies(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(default_timeout_ms=400))
    task = await aios.ended(await aios.create(ENDLESS))
    assert (task["error"]["code"], task["error"]["data"]["timeout_ms"]) == (-32005, 400)
    slow = await aios.call(
        "aios/task.create",
        capability_id="lab.script",
        arguments={"steps": [{"sleep_ms": 900}]},
    )
    assert slow["status"] == "completed"


@pytest.mark.req("R099", "R100", "R191")
async def test_a_retryable_failure_is_tried_again_inside_working(
    aios: AiosClient, tmp_path: Path
) -> None:
    path = tmp_path / "tries"
    failing: list[dict[str, Any]] = [
        {"touch": str(path)},
        {"fail": {"code": -32007, "message": "busy", "retryable": True}},
    ]
    task_id = await aios.create(*failing, retry={"max_attempts": 3, "delay_ms": 150})
    task = await aios.ended(task_id)
    assert (task["status"], task["error"]["code"], task["attempt"]) == ("failed", -32007, 3)
    assert len(path.read_text().splitlines()) == 3
    states = [entry["state"] for entry in await aios.history(task_id)]
    assert states == ["pending", "working", "failed"]
    lines = [event.data for event in await aios.events(task_id) if "change" in event.data]
    assert [(line["attempt"], line["change"]) for line in lines] == [
        (1, "failed"),
        (2, "started"),
        (2, "failed"),
        (3, "started"),
    ]
    moments = [datetime.fromisoformat(line["timestamp"]) for line in lines]
    assert moments[1] - moments[0] >= timedelta(milliseconds=150)


@pytest.mark.req("R099")
async def test_a_later_attempt_may_succeed(aios: AiosClient) -> None:
    busy = [{"fail": {"code": -32007, "message": "busy", "retryable": True}}]
    task_id = await aios.create(
        {"by_attempt": [busy, [{"complete": {"result": "done"}}]]},
        retry={"max_attempts": 5, "delay_ms": 0},
    )
    task = await aios.ended(task_id)
    assert (task["status"], task["result"], task["attempt"]) == ("completed", "done", 2)


@pytest.mark.req("R100", "X06")
async def test_what_cannot_be_retried_is_not(aios: AiosClient, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    for options, retryable in (({}, True), ({"retry": {"max_attempts": 3}}, False)):
        path.unlink(missing_ok=True)
        task_id = await aios.create(
            {"touch": str(path)},
            {"fail": {"code": -32102, "message": "no file", "retryable": retryable}},
            **options,
        )
        assert (await aios.ended(task_id))["attempt"] == 1
        assert len(path.read_text().splitlines()) == 1


@pytest.mark.req("R091", "R092")
async def test_many_tasks_all_come_to_their_turn(aios: AiosClient) -> None:
    ids = await asyncio.gather(*(aios.create({"sleep_ms": 5}) for _ in range(40)))
    for task_id in ids:
        assert (await aios.ended(task_id))["status"] == "completed"
