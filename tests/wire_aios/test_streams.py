from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_aios.client import AiosClient, StreamEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack

WORK: list[dict[str, Any]] = [
    {"progress": {"percent": 25, "message": "正在搜索京东..."}},
    {"log": {"level": "warn", "message": "slow\n\ndata: fake"}},
    {
        "artifact": {
            "name": "京东搜索结果",
            "type": "data",
            "parts": [{"type": "text", "text": "x"}],
        }
    },
    {"ask": {"prompt": "Which?", "options": [{"id": "a", "label": "A"}]}},
]


def number(event_id: str) -> int:
    assert event_id.startswith("evt-")
    return int(event_id.removeprefix("evt-"))


async def answered(aios: AiosClient, task_id: str) -> None:
    await aios.until(task_id, "input_required")
    await aios.call("aios/task.input", task_id=task_id, input={"choice": "a"})


@pytest.mark.req("R060", "R061", "R062")
async def test_a_subscription_needs_a_task_and_known_names(aios: AiosClient) -> None:
    task_id = await aios.create({"sleep_ms": 600_000})
    result = await aios.call(
        "aios/task.subscribe", task_id=task_id, events=["status", "progress", "artifact", "log"]
    )
    assert result["task_id"] == task_id
    assert result["subscription_id"] in result["stream_url"]
    error = await aios.refused("aios/task.subscribe", task_id=task_id, events=["weather"])
    assert (error.code, error.data["field"]) == (-32602, "events[0]")
    error = await aios.refused("aios/task.subscribe", task_id="task-none")
    assert error.brief == (-32106, "Task not found")


@pytest.mark.req("R064", "R065", "R066", "R067", "R068", "R070", "R071", "X16")
async def test_a_stream_tells_everything_that_happens(aios: AiosClient) -> None:
    task_id = await aios.create(*WORK)
    url = await aios.follow(task_id)
    async with aios.stream(url) as events:
        await answered(aios, task_id)
        told = [event async for event in events]
    names = [event.event for event in told if "attempt" not in event.data]
    assert names == [
        "task.status",
        "task.status",
        "task.progress",
        "task.log",
        "task.artifact",
        "task.status",
        "task.input_required",
        "task.status",
        "task.status",
        "task.result",
    ]
    assert [event.status for event in told if event.status] == [
        "pending",
        "working",
        "input_required",
        "working",
        "completed",
    ]
    assert told[0].id == "evt-001"
    ids = [number(event.id) for event in told]
    assert ids == sorted(set(ids))
    assert all(event.data["task_id"] == task_id for event in told)
    by_name = {event.event: event.data for event in told if "attempt" not in event.data}
    assert by_name["task.status"].keys() >= {"task_id", "status", "timestamp"}
    assert by_name["task.progress"]["progress"] == {"percent": 25, "message": "正在搜索京东..."}
    assert by_name["task.log"]["level"] == "WARN"
    assert by_name["task.log"]["message"] == "slow\n\ndata: fake"
    artifact = by_name["task.artifact"]["artifact"]
    assert (artifact["name"], artifact["type"]) == ("京东搜索结果", "data")
    assert (await aios.call("aios/artifact.get", artifact_id=artifact["id"]))["artifact"]
    assert by_name["task.input_required"]["prompt"] == "Which?"
    assert by_name["task.input_required"]["options"] == [{"id": "a", "label": "A"}]
    assert by_name["task.result"]["result"]["inputs"] == [{"choice": "a"}]
    assert [one["id"] for one in by_name["task.result"]["artifacts"]] == [artifact["id"]]


@pytest.mark.req("R069", "R106")
async def test_a_failure_is_a_status_and_then_an_error(aios: AiosClient) -> None:
    task_id = await aios.create({"fail": {"code": -32050, "message": "no"}})
    told = await aios.read_stream(await aios.follow(task_id))
    assert (told[-2].status, told[-1].event) == ("failed", "task.error")
    error = told[-1].data["error"]
    assert (error["code"], error["message"]) == (-32050, "no")
    assert told[-1].data["failed_at"]
    assert error == (await aios.get(task_id))["error"]


@pytest.mark.req("R067", "R107")
async def test_a_need_for_authorization_is_told_with_its_request(aios: AiosClient) -> None:
    need = {
        "type": "oauth2",
        "provider": "google",
        "authorization_url": "https://accounts.example.org/auth",
        "scopes": ["drive.readonly"],
        "reason": "访问Google Drive需要用户授权",
        "timeout_ms": 300000,
    }
    task_id = await aios.create({"auth": need})
    task = await aios.until(task_id, "auth_required")
    told = await aios.events(task_id)
    assert (told[-2].status, told[-1].event) == ("auth_required", "task.auth_required")
    assert told[-1].data["status"] == "auth_required"
    request = told[-1].data["auth_request"]
    assert {**need, "authorization_url": request["authorization_url"]}.items() <= request.items()
    assert request["authorization_url"].startswith("https://accounts.example.org/auth?")
    assert task["auth_request"] == request


@pytest.mark.req("R062", "R063", "R066", "X14")
@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["status"], ["task.input_required", "task.result", "task.status"]),
        (["progress"], ["task.progress"]),
        (["artifact"], ["task.artifact"]),
        (["log"], ["task.log"]),
        (["task.log", "task.progress"], ["task.log", "task.progress"]),
    ],
    ids=str,
)
async def test_a_filter_selects_families(
    aios: AiosClient, names: list[str], wanted: list[str]
) -> None:
    task_id = await aios.create(*WORK)
    url = await aios.follow(task_id, names)
    await answered(aios, task_id)
    assert sorted({event.event for event in await aios.read_stream(url)}) == wanted


@pytest.mark.req("R072")
async def test_after_unsubscribe_nothing_is_delivered_and_the_task_goes_on(
    aios: AiosClient,
) -> None:
    task_id = await aios.create(*WORK)
    await aios.until(task_id, "input_required")
    result = await aios.call("aios/task.subscribe", task_id=task_id)
    subscription_id = result["subscription_id"]
    async with aios.stream(result["stream_url"]) as events:
        done = await aios.call("aios/task.unsubscribe", subscription_id=subscription_id)
        assert done == {"subscription_id": subscription_id, "success": True}
        async with asyncio.timeout(10):
            assert [event async for event in events] == []
    await answered(aios, task_id)
    assert (await aios.ended(task_id))["status"] == "completed"
    error = await aios.refused("aios/task.unsubscribe", subscription_id=subscription_id)
    assert (error.code, error.data["error_id"]) == (-32111, "AIOS-SUBSCRIPTION-NOT-FOUND")
    gone = await aios.http.get(result["stream_url"], headers={"accept": "text/event-stream"})
    assert gone.status_code == 404


@pytest.mark.req("R073", "R074", "R075", "R077", "R071")
async def test_what_was_missed_and_what_follows_are_one_story(aios: AiosClient) -> None:
    task_id = await aios.create(*WORK)
    await aios.until(task_id, "input_required")
    result = await aios.call("aios/task.resubscribe", task_id=task_id, last_event_id="evt-003")
    missed = [StreamEvent(**event) for event in result["missed_events"]]
    assert number(missed[0].id) == 4
    async with aios.stream(result["stream_url"]) as events:
        await answered(aios, task_id)
        rest = [event async for event in events]
    everything = await aios.read_stream(await aios.follow(task_id))
    assert [*everything[:3], *missed, *rest] == everything
    again = await aios.call("aios/task.resubscribe", task_id=task_id)
    assert [StreamEvent(**event) for event in again["missed_events"]] == everything
    assert again["subscription_id"] != result["subscription_id"]
    assert await aios.read_stream(again["stream_url"]) == []


@pytest.mark.req("R075")
async def test_no_event_is_lost_or_repeated_while_events_are_produced(aios: AiosClient) -> None:
    steps: list[dict[str, Any]] = []
    for count in range(60):
        steps += [{"log": {"level": "info", "message": str(count)}}, {"sleep_ms": 5}]
    task_id = await aios.create(*steps)
    seen: list[StreamEvent] = []
    while not seen or seen[-1].event != "task.result":
        last = {"last_event_id": seen[-1].id} if seen else {}
        result = await aios.call("aios/task.resubscribe", task_id=task_id, **last)
        seen += [StreamEvent(**event) for event in result["missed_events"]]
        async with aios.stream(result["stream_url"]) as events:
            taken = 0
            async for event in events:
                seen.append(event)
                taken += 1
                if taken == 7:
                    break
    assert seen == await aios.read_stream(await aios.follow(task_id))
    lines = [event.data["message"] for event in seen if event.event == "task.log"]
    assert [line for line in lines if line.isdigit()] == [str(count) for count in range(60)]


@pytest.mark.req("R078")
@pytest.mark.parametrize("bad", ["evt-9999", "evt-", "3", "evt--1", "foo"])
async def test_an_event_id_that_never_was_is_refused(aios: AiosClient, bad: str) -> None:
    task_id = await aios.create()
    await aios.ended(task_id)
    error = await aios.refused("aios/task.resubscribe", task_id=task_id, last_event_id=bad)
    assert (error.code, error.data["field"]) == (-32602, "last_event_id")
    url = await aios.follow(task_id)
    headers = {"accept": "text/event-stream", "last-event-id": bad}
    assert (await aios.http.get(url, headers=headers)).status_code == 400


@pytest.mark.req("R078")
@pytest.mark.slow
async def test_a_reader_is_told_that_older_events_are_gone(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(event_retention=10))
    steps = [{"log": {"level": "info", "message": str(count)}} for count in range(40)]
    task_id = await aios.create(*steps, {"ask": {"prompt": "?"}})
    await aios.until(task_id, "input_required")
    result = await aios.call("aios/task.resubscribe", task_id=task_id, last_event_id="evt-001")
    assert result["truncated"] is True
    assert result["missed_events"][0]["id"] == result["oldest_event_id"]
    assert number(result["oldest_event_id"]) > 2
    await aios.call("aios/task.cancel", task_id=task_id)


@pytest.mark.req("R079")
async def test_last_event_id_goes_on_after_an_event(aios: AiosClient) -> None:
    task_id = await aios.create(*WORK)
    url = await aios.follow(task_id)
    async with aios.stream(url) as events:
        first = [await anext(events) for _ in range(3)]
    await answered(aios, task_id)
    rest = await aios.read_stream(url, last_event_id=first[-1].id)
    assert [*first, *rest] == await aios.read_stream(url)


@pytest.mark.req("R080", "R071")
async def test_two_subscribers_are_told_the_same(aios: AiosClient) -> None:
    task_id = await aios.create(*WORK)
    urls = [await aios.follow(task_id) for _ in range(2)]
    readers = [asyncio.create_task(aios.read_stream(url)) for url in urls]
    await answered(aios, task_id)
    first, second = await asyncio.gather(*readers)
    assert first == second
    assert first[-1].event == "task.result"


@pytest.mark.req("R059")
async def test_a_client_that_leaves_changes_nothing(aios: AiosClient) -> None:
    task_id = await aios.create({"progress": {"percent": 1}}, {"sleep_ms": 300})
    async with aios.stream(await aios.follow(task_id)) as events:
        await anext(events)
    assert (await aios.ended(task_id))["status"] == "completed"
