"""Tasks over /api/v1, on the service as a user starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.wire_openapi.client import ENDLESS, Api

if TYPE_CHECKING:
    from tests.support.stack import Stack

UNCERTAIN = {"outcome_certainty": "uncertain", "retry_policy": "manual_review"}


@pytest.mark.req("R148", "R150")
async def test_a_task_completes_with_result_and_artifact(api: Api) -> None:
    artifact = {"name": "a.txt", "parts": [{"type": "text", "text": "hi"}]}
    task_id = await api.create(
        {"artifact": artifact}, {"complete": {"result": {"n": 1}}}, metadata={"k": "v"}
    )
    task = await api.ended(task_id)
    assert (task["status"], task["product"]) == ("completed", {"status": "completed"})
    assert task["result"] == {"n": 1}
    assert task["metadata"] == {"k": "v"}
    assert task["artifacts"][0]["parts"] == [{"type": "text", "text": "hi"}]


@pytest.mark.req("R144", "R145", "R146", "R148")
async def test_a_failure_says_reason_certainty_and_policy(api: Api) -> None:
    task = await api.ended(await api.create({"fail": {"message": "no"}}))
    assert task["status"] == "failed"
    assert task["product"].keys() == {"status", "reason", "outcome_certainty", "retry_policy"}
    late = await api.ended(await api.create({"sleep_ms": 60_000}, capability_id="lab.script.brief"))
    assert late["status"] == "timeout"
    assert late["product"] == {"status": "failed", "reason": "timeout", **UNCERTAIN}


@pytest.mark.req("R148", "R150")
async def test_a_declined_task_is_rejected(api: Api) -> None:
    task = await api.ended(await api.create({"reject": {"reason": "busy"}}))
    assert task["status"] == "rejected"
    assert task["product"]["status"] == "failed"
    assert task["product"]["reason"] == "rejected"


@pytest.mark.req("R148", "R171")
async def test_cancel_is_a_no_op_on_a_terminal_task(api: Api) -> None:
    task_id = await api.create(ENDLESS)
    first = await api.ok("POST", f"/tasks/{task_id}/cancel", json={"reason": "enough"})
    again = await api.ok("POST", f"/tasks/{task_id}/cancel")
    assert first["status"] == again["status"] == "canceled"
    assert again["product"]["status"] == "cancelled"


@pytest.mark.req("R149", "R151")
async def test_a_question_is_answered_by_continue(api: Api) -> None:
    task_id = await api.create({"ask": {"prompt": "which?"}})
    task = await api.until(task_id, "input_required")
    assert task["input_request"]["prompt"] == "which?"
    assert task["product"] == {"status": "processing", "reason": "input_required"}
    await api.refused("POST", f"/tasks/{task_id}/continue", 400, "missing_param", json={})
    both = {"input": {}, "auth_grant": {"type": "api_key", "api_key": "x"}}
    await api.refused("POST", f"/tasks/{task_id}/continue", 400, "invalid_param", json=both)
    await api.ok("POST", f"/tasks/{task_id}/continue", json={"input": {"a": 1}})
    done = await api.ended(task_id)
    assert done["result"]["inputs"] == [{"a": 1}]
    body = {"input": {"a": 1}}
    await api.refused("POST", f"/tasks/{task_id}/continue", 409, "conflict", json=body)


@pytest.mark.req("R149", "R151")
async def test_an_authorization_is_given_by_continue(api: Api) -> None:
    task_id = await api.create({"auth": {"type": "api_key", "reason": "mail"}})
    task = await api.until(task_id, "auth_required")
    assert task["auth_request"]["type"] == "api_key"
    assert task["product"] == {"status": "processing", "reason": "auth_required"}
    grant = {"auth_grant": {"type": "api_key"}}
    error = await api.refused(
        "POST", f"/tasks/{task_id}/continue", 400, "missing_param", json=grant
    )
    assert error["param"] == "auth_grant.api_key"
    grant["auth_grant"]["api_key"] = "k" * 20
    await api.ok("POST", f"/tasks/{task_id}/continue", json=grant)
    assert (await api.ended(task_id))["status"] == "completed"


async def test_the_same_key_finds_the_same_task(api: Api) -> None:
    body = {"capability_id": "lab.script", "message": "hello", "idempotency_key": "k-1"}
    first = await api.ok("POST", "/tasks", 202, json=body)
    del body["idempotency_key"]
    headers = {"Idempotency-Key": "k-1"}
    assert await api.ok("POST", "/tasks", 202, json=body, headers=headers) == first
    body["message"] = "another"
    await api.refused("POST", "/tasks", 409, "conflict", json=body, headers=headers)
    body["idempotency_key"] = "k-2"
    error = await api.refused("POST", "/tasks", 400, "invalid_param", json=body, headers=headers)
    assert error["param"] == "idempotency_key"


@pytest.mark.req("R157")
async def test_a_504_names_the_task_and_the_task_goes_on(api: Api) -> None:
    body = {
        "capability_id": "lab.script",
        "arguments": {"steps": [{"sleep_ms": 1500}, {"complete": {"result": 7}}]},
        "timeout_ms": 200,
    }
    error = await api.refused("POST", "/invoke", 504, "service_timeout", json=body)
    task_id = error["metadata"]["task_id"]
    assert error["metadata"]["status_url"] == f"/api/v1/tasks/{task_id}"
    assert (await api.get(task_id))["status"] in ("queued", "running")
    assert (await api.ended(task_id))["result"] == 7


@pytest.mark.req("R142", "R143", "R172")
async def test_the_product_reads_legacy_words_and_writes_five(api: Api) -> None:
    late = await api.create({"sleep_ms": 60_000}, capability_id="lab.script.brief", context_id="p")
    gone = await api.create(ENDLESS, context_id="p")
    done = await api.create(context_id="p")
    await api.ok("POST", f"/tasks/{gone}/cancel")
    await api.ended(late)
    await api.ended(done)
    for word, expected in {
        "timeout": late,
        "uncertain": late,
        "failed": late,
        "canceled": gone,
        "cancelled": gone,
        "succeeded": done,
        "completed": done,
    }.items():
        found = await api.ok("GET", f"/product/tasks?status={word}&context_id=p")
        assert expected in [task["task_id"] for task in found["tasks"]], word
    for word in ("canceled", "cancelled"):
        found = await api.ok("GET", f"/tasks?status={word}&status=timeout&context_id=p")
        assert {task["task_id"] for task in found["tasks"]} == {late, gone}
    await api.refused("GET", "/product/tasks?status=odd", 400, "invalid_param")
    shown = await api.ok("GET", f"/product/tasks/{late}")
    assert shown["status"] == "failed"


async def test_pages_follow_each_other_by_cursor(api: Api) -> None:
    made = [await api.create(context_id="pages") for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        query = {"context_id": "pages", "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = await api.ok("GET", "/tasks", params=query)
        seen += [task["task_id"] for task in page["tasks"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert seen == made[::-1]


@pytest.mark.req("R159", "R160", "R161")
async def test_messages_are_listed_and_streamed(api: Api) -> None:
    task_id = await api.create(
        {"message": {"text": "hello", "status": "completed", "stop_reason": "end_turn"}}
    )
    await api.ended(task_id)
    found = (await api.ok("GET", f"/tasks/{task_id}/messages"))["messages"]
    agent = [message for message in found if message["role"] == "agent"]
    assert agent[0]["status"] == "completed"
    assert agent[0]["stop_reason"] == "end_turn"
    assert agent[0]["parts"] == [{"type": "text", "text": "hello"}]
    frames = await api.stream(f"/tasks/{task_id}/events")
    assert [frame.event for frame in frames[:-1]] == ["message"] * (len(frames) - 1)
    assert (frames[-1].event, frames[-1].data) == ("end", {"reason": "task_terminal"})
    offsets = [frame.data["offset"] for frame in frames[:-1]]
    assert offsets == sorted(set(offsets))
    for resumed in (
        await api.stream(f"/tasks/{task_id}/events?since={offsets[1]}"),
        await api.stream(f"/tasks/{task_id}/events", **{"last-event-id": str(offsets[1])}),
    ):
        assert [frame.data.get("offset") for frame in resumed[:-1]] == offsets[2:]
    await api.refused("GET", f"/tasks/{task_id}/events?since=x", 400, "invalid_param")
    await api.refused("GET", f"/tasks/{task_id}/events?since=99999", 400, "invalid_param")


@pytest.mark.req("R145")
async def test_the_stream_tells_a_timeout_in_this_wires_word(api: Api) -> None:
    task_id = await api.create({"sleep_ms": 60_000}, capability_id="lab.script.brief")
    frames = await api.stream(f"/tasks/{task_id}/events")
    last = [frame.data for frame in frames if frame.data.get("type") == "task_status"][-1]
    assert (last["status"], last["final"]) == ("timeout", True)
    assert last["product"] == {"status": "failed", "reason": "timeout", **UNCERTAIN}


@pytest.mark.req("R147")
async def test_an_uncertain_failure_is_resolved_once(api: Api) -> None:
    task_id = await api.create({"sleep_ms": 60_000}, capability_id="lab.script.brief")
    await api.ended(task_id)
    wrong = {"outcome": "completed"}
    await api.refused("POST", f"/tasks/{task_id}/resolve", 400, "missing_param", json=wrong)
    body = {"outcome": "retry", "evidence": "nothing was sent"}
    closed = await api.ok("POST", f"/tasks/{task_id}/resolve", json=body)
    assert closed["status"] == "timeout"
    assert closed["product"]["outcome_certainty"] == "certain"
    retried = await api.get(closed["resolution"]["retried_as"])
    assert retried["retried_from"] == task_id
    await api.refused("POST", f"/tasks/{task_id}/resolve", 409, "conflict", json=body)


async def test_another_principal_learns_nothing(api: Api, stack: Stack) -> None:
    task_id = await api.create(ENDLESS)
    other = Api(stack, stack.make_token("openapi.other", "task:read", "task:create"))
    for path in ("", "/messages", "/events"):
        theirs = await other.refused("GET", f"/tasks/{task_id}{path}", 404, "agent_not_found")
        unknown = await other.refused("GET", f"/tasks/task-0{path}", 404, "agent_not_found")
        assert theirs["message"].replace(task_id, "task-0") == unknown["message"]
    await other.close()
