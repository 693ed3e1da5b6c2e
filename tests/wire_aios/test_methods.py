from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_aios.client import ENDLESS, TERMINAL, AiosClient, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack

METHODS = (
    "aios/task.create",
    "aios/task.get",
    "aios/task.list",
    "aios/task.cancel",
    "aios/task.pause",
    "aios/task.resume",
    "aios/task.input",
    "aios/task.authenticate",
    "aios/task.subscribe",
    "aios/task.unsubscribe",
    "aios/task.resubscribe",
    "aios/task.subscribe_webhook",
    "aios/task.unsubscribe_webhook",
    "aios/task.history",
    "aios/artifact.get",
    "aios/artifact.list",
)


@pytest.mark.req("R001")
async def test_every_method_of_the_document_is_there(aios: AiosClient) -> None:
    for method in METHODS:
        try:
            await aios.call(method)
        except WireError as error:
            assert error.code == -32602, (method, error)


@pytest.mark.req("R002")
async def test_an_id_comes_back_as_it_was(aios: AiosClient) -> None:
    for call_id in ("a-1", "", 0, 7, -3, 9007199254740991):
        body = {"jsonrpc": "2.0", "id": call_id, "method": "aios/ping"}
        answer = (await aios.http.post("/aios/rpc", json=body)).json()
        assert answer["id"] == call_id
        assert type(answer["id"]) is type(call_id)
        assert answer["jsonrpc"] == "2.0"


@pytest.mark.req("R002")
async def test_what_is_no_call_is_told_apart(aios: AiosClient) -> None:
    headers = {"content-type": "application/json"}
    for body, code in (
        (b'{"jsonrpc": "2.0", "id": 1, "method"', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}', -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"aios/ping"}', -32600),
        (b'{"id":1,"method":"aios/ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"aios/task.fly"}', -32601),
        (b"[]", -32600),
    ):
        answer = await aios.http.post("/aios/rpc", content=body, headers=headers)
        assert answer.status_code == 200
        error = answer.json()["error"]
        assert error["code"] == code, body
        if code == -32700:
            assert answer.json()["id"] is None


@pytest.mark.req("R003", "R004", "R005", "R008", "R009", "R010")
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "capability_id"),
        ({"capability_id": ["lab.script"]}, "capability_id"),
        ({"capability_id": "lab.script", "arguments": "none"}, "arguments"),
        ({"capability_id": "lab.script", "metadata": []}, "metadata"),
        ({"capability_id": "lab.script", "options": {"async": 1}}, "options.async"),
        ({"capability_id": "lab.script", "options": {"priority": "top"}}, "options.priority"),
        ({"capability_id": "lab.script", "options": {"timeout_ms": 0}}, "options.timeout_ms"),
        ({"capability_id": "lab.script", "options": {"timeout_ms": -1}}, "options.timeout_ms"),
        ({"capability_id": "lab.script", "options": {"timeout_ms": 0.5}}, "options.timeout_ms"),
        ({"capability_id": "lab.script", "options": {"retry": []}}, "options.retry"),
        (
            {"capability_id": "lab.script", "options": {"retry": {"max_attempts": 0}}},
            "options.retry.max_attempts",
        ),
        (
            {"capability_id": "lab.script", "options": {"retry": {"delay_ms": -1}}},
            "options.retry.delay_ms",
        ),
    ],
    ids=str,
)
async def test_a_wrong_parameter_makes_no_task(
    aios: AiosClient, params: dict[str, Any], field: str
) -> None:
    before = (await aios.call("aios/task.list"))["total"]
    error = await aios.refused("aios/task.create", **params)
    assert (error.code, error.data["field"]) == (-32602, field)
    assert (await aios.call("aios/task.list"))["total"] == before


@pytest.mark.req("R004", "R005", "R007")
async def test_a_creation_without_options_waits_for_the_end(aios: AiosClient) -> None:
    task = await aios.call("aios/task.create", capability_id="lab.script")
    assert (task["status"], task["result"]) == ("completed", {"inputs": [], "attempt": 1})


@pytest.mark.req("R007")
async def test_a_synchronous_creation_answers_when_the_task_asks(aios: AiosClient) -> None:
    task = await aios.call(
        "aios/task.create",
        capability_id="lab.script",
        arguments={"steps": [{"ask": {"prompt": "Which one?"}}]},
    )
    assert (task["status"], task["input_request"]["prompt"]) == ("input_required", "Which one?")
    await aios.call("aios/task.cancel", task_id=task["task_id"])


@pytest.mark.req("R007", "X12")
async def test_after_the_cap_a_synchronous_creation_answers_with_a_snapshot(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(sync_wait_ms=300))
    task = await aios.call(
        "aios/task.create", capability_id="lab.script", arguments={"steps": [ENDLESS]}
    )
    assert task["status"] == "working"
    canceled = await aios.call("aios/task.cancel", task_id=task["task_id"])
    assert canceled["status"] == "canceled"


@pytest.mark.req("R006", "R011", "R012")
async def test_an_asynchronous_creation_answers_at_once(aios: AiosClient) -> None:
    seen = set()
    for _ in range(3):
        result = await aios.call(
            "aios/task.create",
            capability_id="lab.script",
            task_id="mine",
            options={"async": True},
        )
        assert result["status"] == "pending"
        assert result.keys() <= {"task_id", "status", "created_at", "estimated_duration_ms"}
        assert result["created_at"].endswith("Z")
        seen.add(result["task_id"])
    assert len(seen) == 3
    assert "mine" not in seen


@pytest.mark.req("R008")
@pytest.mark.parametrize("priority", ["low", "normal", "high", "urgent"])
async def test_a_priority_is_kept(aios: AiosClient, priority: str) -> None:
    task = await aios.get(await aios.create(priority=priority))
    assert task["priority"] == priority


@pytest.mark.req("R008")
async def test_the_default_priority_is_normal(aios: AiosClient) -> None:
    assert (await aios.get(await aios.create()))["priority"] == "normal"


@pytest.mark.req("R013", "R014")
async def test_what_cannot_run_makes_no_task(aios: AiosClient) -> None:
    before = (await aios.call("aios/task.list"))["total"]
    error = await aios.refused("aios/task.create", capability_id="compat.none")
    assert (error.code, error.data["error_id"]) == (-32003, "AIOS-CAP-NOT-FOUND")
    error = await aios.refused(
        "aios/task.create", capability_id="lab.script", arguments={"steps": 7}
    )
    assert (error.code, error.data["error_id"]) == (-32108, "AIOS-VALIDATION-FAILED")
    assert (await aios.call("aios/task.list"))["total"] == before


@pytest.mark.req("R015")
async def test_metadata_comes_back_unchanged(aios: AiosClient) -> None:
    metadata = {"user_request": "比较价格", "tags": ["a", "b"], "n": {"deep": [1, 2.5, None, True]}}
    task = await aios.get(await aios.create(metadata=metadata))
    assert task["metadata"] == metadata


@pytest.mark.req("R016", "R017", "R020")
async def test_a_task_has_the_members_of_the_document(aios: AiosClient) -> None:
    task_id = await aios.create(
        {
            "progress": {
                "percent": 45,
                "message": "正在搜索淘宝...",
                "current_step": 2,
                "total_steps": 4,
            }
        },
        {"artifact": {"name": "r", "type": "report", "parts": [{"type": "text", "text": "x"}]}},
        {"ask": {"prompt": "?"}},
    )
    task = await aios.until(task_id, "input_required")
    assert task["capability_id"] == "lab.script"
    assert task["progress"] == {
        "percent": 45,
        "message": "正在搜索淘宝...",
        "current_step": 2,
        "total_steps": 4,
    }
    assert task["created_at"] <= task["started_at"]
    (artifact,) = task["artifacts"]
    assert (artifact["name"], artifact["type"]) == ("r", "report")
    assert "parts" not in artifact


@pytest.mark.req("R018")
async def test_an_unknown_task_is_not_found(aios: AiosClient) -> None:
    for method in ("get", "cancel", "pause", "resume", "subscribe", "resubscribe"):
        error = await aios.refused(f"aios/task.{method}", task_id="task-none")
        assert error.brief == (-32106, "Task not found"), method
    error = await aios.refused("aios/task.input", task_id="task-none", input={})
    assert error.brief == (-32106, "Task not found")


@pytest.mark.req("R021", "R022", "R023", "R024")
async def test_a_list_filters_sorts_and_pages(aios: AiosClient) -> None:
    ids = [await aios.create() for _ in range(3)]
    other = await aios.create(capability_id="lab.other.script")
    for task_id in (*ids, other):
        await aios.ended(task_id)

    async def page(**params: Any) -> Any:
        return await aios.call("aios/task.list", **params)

    newest = await page(pagination={"limit": 4})
    assert [row["task_id"] for row in newest["tasks"]] == [other, *reversed(ids)]
    assert newest["tasks"][0].keys() >= {"task_id", "status", "progress", "created_at"}
    only = await page(filter={"capability_id": "lab.other.*", "status": ["completed"]})
    assert other in [row["task_id"] for row in only["tasks"]]
    assert all(row["capability_id"] == "lab.other.script" for row in only["tasks"])
    second = await page(pagination={"limit": 2, "offset": 1})
    assert [row["task_id"] for row in second["tasks"]] == [ids[2], ids[1]]
    assert second["total"] == newest["total"]
    assert second["has_more"] is (second["total"] > 3)
    oldest = await page(sort={"field": "created_at", "order": "asc"}, pagination={"limit": 200})
    stamps = [row["created_at"] for row in oldest["tasks"]]
    assert stamps == sorted(stamps)
    assert oldest["has_more"] is (oldest["total"] > len(stamps))
    nothing = await page(filter={"capability_id": "script"})
    assert (nothing["tasks"], nothing["total"], nothing["has_more"]) == ([], 0, False)


@pytest.mark.req("R025")
async def test_bad_filters_and_pages_are_refused(aios: AiosClient) -> None:
    for method in ("aios/task.list", "aios/task.history"):
        for params in (
            {"filter": {"status": ["sleeping"]}},
            {"pagination": {"limit": 0}},
            {"pagination": {"limit": 1000}},
            {"pagination": {"offset": -1}},
        ):
            assert (await aios.refused(method, **params)).code == -32602
    assert (await aios.refused("aios/task.list", sort={"field": "colour"})).code == -32602
    assert (await aios.refused("aios/task.list", sort={"order": "random"})).code == -32602


@pytest.mark.req("R032")
async def test_history_lists_what_has_ended(aios: AiosClient) -> None:
    first = await aios.create()
    start = (await aios.ended(first))["created_at"]
    failed = await aios.create({"fail": {"code": -32050, "message": "no"}})
    end = (await aios.ended(failed))["created_at"]
    running = await aios.create(ENDLESS)
    bounds = {"start_time": start, "end_time": end}
    result = await aios.call("aios/task.history", filter=bounds)
    assert [row["task_id"] for row in result["tasks"]] == [failed, first]
    assert (result["total"], result["has_more"]) == (2, False)
    row = result["tasks"][0]
    assert (row["status"], row["error"]["code"]) == ("failed", -32050)
    assert row["failed_at"] >= row["created_at"]
    assert row["duration_ms"] >= 0
    one = await aios.call("aios/task.history", filter=bounds, pagination={"limit": 1, "offset": 1})
    assert [row["task_id"] for row in one["tasks"]] == [first]
    only = await aios.call("aios/task.history", filter=bounds | {"status": ["completed"]})
    assert [row["task_id"] for row in only["tasks"]] == [first]
    every = await aios.call("aios/task.history", filter={"start_time": start})
    assert running not in [row["task_id"] for row in every["tasks"]]
    assert {row["status"] for row in every["tasks"]} <= set(TERMINAL)


@pytest.mark.req("X42")
async def test_the_same_key_is_the_same_task(aios: AiosClient) -> None:
    params = {"capability_id": "lab.script", "options": {"async": True}}
    key = {"idempotency-key": "key-1"}
    first = (await aios.response("aios/task.create", params, **key))["result"]
    again = (await aios.response("aios/task.create", params, **key))["result"]
    assert first["task_id"] == again["task_id"]
    other = await aios.response("aios/task.create", params | {"metadata": {"x": 1}}, **key)
    assert other["error"]["code"] == -32112
    keyed = {"async": True, "idempotency_key": "key-2"}
    one = await aios.call("aios/task.create", capability_id="lab.script", options=keyed)
    two = await aios.call("aios/task.create", capability_id="lab.script", options=keyed)
    assert one["task_id"] == two["task_id"] != first["task_id"]


@pytest.mark.req("X42")
@pytest.mark.parametrize(
    ("method", "header", "field"),
    [
        ("aios/task.create", "another", "options.idempotency_key"),
        ("aios/capability.invoke", "another", "options.idempotency_key"),
        ("aios/task.create", "\xff", "Idempotency-Key"),
    ],
)
async def test_a_key_that_is_not_one_key_is_refused(
    aios: AiosClient, method: str, header: str, field: str
) -> None:
    params = {"capability_id": "lab.script", "options": {"idempotency_key": "one"}}
    answer = await aios.http.post(
        "/aios/rpc",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={b"idempotency-key": header.encode("latin-1")},
    )
    error = answer.json()["error"]
    assert (error["code"], error["data"]["field"]) == (-32602, field)


async def test_the_discovery_card_names_what_can_be_run(aios: AiosClient) -> None:
    card = (await aios.http.get("/.well-known/aios-adapter.json")).json()
    assert card["endpoints"]["rpc"] == "/aios/rpc"
    assert "lab.script" in [capability["id"] for capability in card["capabilities"]]
    listed = await aios.call("aios/capability.list", namespace="lab")
    assert {"lab.script", "lab.other.script"} <= {one["id"] for one in listed["capabilities"]}
    info = await aios.call("aios/capability.info", capability_id="lab.script.high")
    assert (info["permission"]["level"], info["tool_id"]) == ("high", "lab")
    error = await aios.refused("aios/capability.info", capability_id="app.none")
    assert error.code == -32003


@pytest.mark.req("X26", "X46")
async def test_a_capability_can_be_invoked_without_knowing_tasks(aios: AiosClient) -> None:
    done = await aios.call(
        "aios/capability.invoke",
        capability_id="lab.script",
        arguments={"steps": [{"complete": {"result": [1]}}]},
    )
    assert (done["success"], done["data"]) == (True, [1])
    status = await aios.call("aios/capability.status", task_id=done["task_id"])
    assert (status["status"], status["result"]) == ("completed", [1])
    error = await aios.refused(
        "aios/capability.invoke",
        capability_id="lab.script",
        arguments={"steps": [{"ask": {"prompt": "Which?"}}]},
    )
    assert (*error.brief, error.data["prompt"]) == (-32002, "Input required", "Which?")
    status = await aios.call("aios/capability.status", task_id=error.data["task_id"])
    assert status["status"] == "running"
    assert await aios.call("aios/capability.cancel", task_id=error.data["task_id"]) == {
        "success": True
    }
    error = await aios.refused(
        "aios/capability.invoke",
        capability_id="lab.script",
        arguments={"steps": [{"sleep_ms": 60_000}]},
        options={"timeout_ms": 100},
    )
    assert (error.code, error.data["error_id"]) == (-32005, "AIOS-TIMEOUT")
