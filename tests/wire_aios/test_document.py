"""A client written from the document alone: its requests, its answers, its order of events.

The JSON is the document's own. Only what a server chooses (ids, times) and the two shops, which
are on loopback here, differ. An answer must have every member of the document's, of the same type;
it may have more.
"""

from __future__ import annotations

import asyncio
import base64
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.market import Market, open_market
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient

PROMPT = "找到多个商品，请选择要比较的商品"  # noqa: RUF001
ANY_TIME = "2026-01-05T10:00:00Z"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
async def market(shared_stack: Stack) -> AsyncIterator[Market]:
    async with open_market(shared_stack.socket) as opened:
        yield opened


def create(market: Market) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": "1",
        "method": "aios/task.create",
        "params": {
            "capability_id": "compat.browser.search_and_compare",
            "arguments": {
                "query": "无线耳机",
                "sites": [market.jd.url, market.taobao.url],
            },
            "options": {
                "async": True,
                "priority": "normal",
                "timeout_ms": 120000,
                "retry": {"max_attempts": 3, "delay_ms": 1000},
            },
            "metadata": {
                "user_request": "比较京东和淘宝的耳机价格",
                "tags": ["shopping", "comparison"],
            },
        },
    }


async def ask(aios: AiosClient, request: dict[str, Any]) -> Any:
    """Send a request as it is; the result under its id."""
    answer = await aios.http.post("/aios/rpc", json=request)
    assert answer.status_code == 200, answer.text
    response = answer.json()
    assert (response["jsonrpc"], response["id"]) == ("2.0", request["id"])
    assert "error" not in response, response
    return response["result"]


def call(number: str, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def must_have(answer: Any, document: Any, where: str = "result") -> None:
    """Every member of the document's answer is in ours, and is of the same type."""
    match document:
        case dict():
            assert isinstance(answer, dict), where
            for name, value in document.items():
                assert name in answer, f"{where}.{name} is missing in {answer}"
                must_have(answer[name], value, f"{where}.{name}")
        case list():
            assert isinstance(answer, list), where
            for index, value in enumerate(document):
                must_have(answer[index], value, f"{where}[{index}]")
        case bool() | None:
            assert type(answer) is type(document), where
        case int() | float():
            assert isinstance(answer, int | float) and not isinstance(answer, bool), where
        case _:
            assert isinstance(answer, str), where
            assert TIME.fullmatch(answer) or document != ANY_TIME, f"{where}: {answer}"


async def asking(aios: AiosClient, market: Market) -> str:
    task_id: str = (await ask(aios, create(market)))["task_id"]
    await aios.until(task_id, "input_required")
    return task_id


def choose(task_id: str) -> dict[str, Any]:
    chosen = {"selected_product": "product-123", "confirm_purchase": True}
    return call("7", "aios/task.input", task_id=task_id, input=chosen)


@pytest.mark.req("R011", "R016", "R020", "R024", "R029", "R060", "R065", "R066", "R067")
async def test_the_conversation_of_the_document(aios: AiosClient, market: Market) -> None:
    market.taobao.opened.clear()
    created = await ask(aios, create(market))
    must_have(
        created,
        {
            "task_id": "task-001",
            "status": "pending",
            "created_at": ANY_TIME,
            "estimated_duration_ms": 30000,
        },
    )
    assert created["estimated_duration_ms"] == 30000
    task_id = created["task_id"]

    async def at_taobao() -> dict[str, Any]:
        found = await ask(aios, call("2", "aios/task.get", task_id=task_id))
        return found if found.get("progress", {}).get("current_step") == 2 else {}

    task = await eventually(at_taobao)
    must_have(
        task,
        {
            "task_id": "task-001",
            "capability_id": "compat.browser.search_and_compare",
            "status": "working",
            "progress": {
                "percent": 45,
                "message": "正在搜索淘宝...",
                "current_step": 2,
                "total_steps": 4,
            },
            "created_at": ANY_TIME,
            "started_at": ANY_TIME,
            "artifacts": [],
        },
    )
    assert (task["status"], task["artifacts"]) == ("working", [])
    assert task["progress"]["message"].startswith("正在搜索")
    assert (task["progress"]["current_step"], task["progress"]["total_steps"]) == (2, 4)
    assert task["metadata"] == create(market)["params"]["metadata"]

    listed = await ask(
        aios,
        call(
            "3",
            "aios/task.list",
            filter={"status": ["pending", "working"], "capability_id": "compat.browser.*"},
            pagination={"limit": 10, "offset": 0},
            sort={"field": "created_at", "order": "desc"},
        ),
    )
    summary = {"task_id": "", "status": "", "progress": {"percent": 45}, "created_at": ANY_TIME}
    must_have(listed, {"tasks": [summary], "total": 1, "has_more": False})
    assert [one["task_id"] for one in listed["tasks"]] == [task_id]

    families = ["status", "progress", "artifact", "log"]
    subscribed = await ask(aios, call("8", "aios/task.subscribe", task_id=task_id, events=families))
    must_have(subscribed, {"subscription_id": "sub-001", "task_id": "task-001"})
    async with aios.stream(subscribed["stream_url"]) as stream:
        market.taobao.opened.set()
        told = []
        async for event in stream:
            told.append(event)
            if event.event == "task.input_required":
                accepted = await ask(aios, choose(task_id))
                must_have(accepted, {"task_id": "task-001", "status": "working"})
    assert [event.status or event.event for event in told] == [
        "task.artifact",
        "task.artifact",
        "input_required",
        "task.input_required",
        "working",
        "task.progress",
        "task.artifact",
        "completed",
        "task.result",
    ]
    artifact = {"id": "art-001", "name": "京东搜索结果", "type": "data"}
    must_have(told[0].data, {"task_id": "task-001", "artifact": artifact})
    names = [event.data["artifact"]["name"] for event in told if event.event == "task.artifact"]
    assert names == ["京东搜索结果", "淘宝搜索结果", "价格对比报告"]
    assert told[3].data["prompt"] == PROMPT
    assert [one["id"] for one in told[3].data["options"]] == ["product-123", "product-456"]
    must_have(told[7].data, {"task_id": "", "status": "completed", "timestamp": ANY_TIME})
    must_have(told[8].data, {"task_id": "task-001", "result": {}, "artifacts": [artifact]})

    everything = await aios.events(task_id)
    assert everything[0].id == "evt-001"
    assert everything[-len(told) :] == told
    assert [
        event.data["progress"]["percent"]
        for event in everything[:9]
        if event.event == "task.progress"
    ][:2] == [25, 50]


@pytest.mark.req("R081", "R082", "R085", "R086")
async def test_the_report_of_the_document(aios: AiosClient, market: Market) -> None:
    task_id = await asking(aios, market)
    await ask(aios, choose(task_id))
    task = await aios.ended(task_id)
    listed = await ask(aios, call("12", "aios/artifact.list", task_id=task_id))
    assert listed["total"] == 3
    report_id = next(one["id"] for one in listed["artifacts"] if one["type"] == "report")
    answer = await ask(aios, call("11", "aios/artifact.get", artifact_id=report_id))
    priced = {"price": 299, "url": "https://jd.com/..."}
    must_have(
        answer,
        {
            "artifact": {
                "id": "art-001",
                "name": "价格对比报告",
                "type": "report",
                "mime_type": "application/json",
                "created_at": ANY_TIME,
                "parts": [
                    {"type": "text", "text": "## 价格对比结果\n\n京东价格: ¥299\n淘宝价格: ¥289"},
                    {"type": "data", "data": {market.jd.url: priced, market.taobao.url: priced}},
                    {
                        "type": "image",
                        "image": {
                            "uri": "file:///tmp/comparison_chart.png",
                            "mime_type": "image/png",
                        },
                    },
                ],
                "metadata": {"source_task": "task-001", "version": 1},
            }
        },
    )
    report = answer["artifact"]
    text, data, picture = report["parts"]
    assert (report["name"], report["type"]) == ("价格对比报告", "report")
    assert report["metadata"]["source_task"] == task_id
    assert text["text"].startswith("## 价格对比结果\n")
    assert "京东价格: ¥299" in text["text"] and "淘宝价格: ¥289" in text["text"]
    assert data["data"][market.jd.url]["price"] == 299
    assert data["data"][market.jd.url]["url"] == f"{market.jd.url}item"
    assert data["data"] == task["result"]["sites"]
    assert task["result"]["lowest"] == market.taobao.url
    assert picture["type"] == "image" and picture["image"]["mime_type"] == "image/svg+xml"
    head, _, encoded = picture["image"]["uri"].partition(",")
    assert head == "data:image/svg+xml;base64"
    assert "淘宝" in base64.b64decode(encoded).decode()


@pytest.mark.req("R073", "R074")
async def test_what_was_missed_after_evt_003(aios: AiosClient, market: Market) -> None:
    task_id = await asking(aios, market)
    result = await ask(
        aios, call("10", "aios/task.resubscribe", task_id=task_id, last_event_id="evt-003")
    )
    must_have(result, {"subscription_id": "sub-002", "missed_events": [{"id": "", "event": ""}]})
    missed = result["missed_events"]
    assert missed[0]["id"] == "evt-004"
    assert all(event.keys() == {"id", "event", "data"} for event in missed)
    assert [event["event"] for event in missed][-4:] == [
        "task.artifact",
        "task.artifact",
        "task.status",
        "task.input_required",
    ]
    done = await ask(
        aios, call("9", "aios/task.unsubscribe", subscription_id=result["subscription_id"])
    )
    assert done["success"] is True


@pytest.mark.req("R017", "R051", "R052", "R053")
async def test_the_histories_of_the_document(aios: AiosClient, market: Market) -> None:
    task_id = await asking(aios, market)
    await ask(aios, choose(task_id))
    await aios.ended(task_id)
    task = await ask(aios, call("14", "aios/task.get", task_id=task_id, include_history=True))
    must_have(
        task,
        {
            "task_id": "task-001",
            "status": "completed",
            "state_history": [
                {"state": "pending", "timestamp": ANY_TIME},
                {"state": "working", "timestamp": ANY_TIME},
                {
                    "state": "input_required",
                    "timestamp": ANY_TIME,
                    "reason": "需要选择商品",
                    "metadata": {"prompt": PROMPT, "options_count": 5},
                },
                {"state": "working", "timestamp": ANY_TIME, "reason": "用户提供了输入"},
                {"state": "completed", "timestamp": ANY_TIME},
            ],
            "result": {},
        },
    )
    assert [entry["state"] for entry in task["state_history"]] == [
        *("pending", "working", "input_required", "working", "completed")
    ]
    assert task["state_history"][2]["metadata"] == {"prompt": PROMPT, "options_count": 2}
    history = await ask(
        aios,
        call(
            "13",
            "aios/task.history",
            filter={
                "start_time": "2026-01-05T00:00:00Z",
                "end_time": "2999-01-05T23:59:59Z",
                "status": ["completed", "failed"],
            },
            pagination={"limit": 50, "offset": 0},
        ),
    )
    assert task_id in [one["task_id"] for one in history["tasks"]]


@pytest.mark.req("R026", "R027", "R028")
async def test_pause_resume_and_cancel_of_the_document(aios: AiosClient, market: Market) -> None:
    market.jd.opened.clear()
    task_id = (await ask(aios, create(market)))["task_id"]
    await aios.until(task_id, "working")

    async def at_jd() -> bool:
        return bool(market.jd.asked)

    await eventually(at_jd)
    pausing = asyncio.create_task(ask(aios, call("5", "aios/task.pause", task_id=task_id)))
    for _ in range(3):  # the pause, sent before, is with the provider by then
        assert await aios.status(task_id) == "working"
    market.jd.opened.set()
    must_have(await pausing, {"task_id": "task-001", "status": "paused", "paused_at": ANY_TIME})
    resumed = await ask(aios, call("6", "aios/task.resume", task_id=task_id))
    must_have(resumed, {"task_id": "task-001", "status": "working", "resumed_at": ANY_TIME})
    await aios.until(task_id, "input_required")
    canceled = await ask(
        aios, call("4", "aios/task.cancel", task_id=task_id, reason="user_request")
    )
    must_have(canceled, {"task_id": "task-001", "status": "canceled", "canceled_at": ANY_TIME})
    assert canceled["status"] == "canceled"


@pytest.mark.req("R106")
async def test_the_timeout_of_the_document(aios: AiosClient, market: Market) -> None:
    market.jd.opened.clear()
    request = create(market)
    request["params"]["options"]["timeout_ms"] = 300
    task = await aios.ended((await ask(aios, request))["task_id"])
    must_have(
        task,
        {
            "task_id": "task-001",
            "status": "failed",
            "error": {
                "code": -32005,
                "message": "Timeout",
                "data": {
                    "capability_id": "compat.browser.search_and_compare",
                    "timeout_ms": 30000,
                    "elapsed_ms": 30500,
                },
            },
            "failed_at": ANY_TIME,
        },
    )
    assert (task["error"]["code"], task["error"]["message"]) == (-32005, "Timeout")
    assert task["error"]["data"]["elapsed_ms"] >= 300
