"""What may follow what, seen through A2A; effects happen once (R175-R199)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.sdk import connect as connect_native
from tests.support.http import http_client
from tests.wire_a2a.raw import JSONRPC, Problem, Reader, rpc
from tests.wire_a2a.receiver import Receiver
from tests.wire_a2a.said import kinds, script, send, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw


async def until(raw: Raw, task_id: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            task: dict[str, Any] = await raw.call(JSONRPC, "GetTask", {"id": task_id})
            if task["status"]["state"] == f"TASK_STATE_{state}":
                return task
            await asyncio.sleep(0.02)


async def states(raw: Raw, *steps: dict[str, Any], tenant: str = "lab.script") -> list[str]:
    """The states that a new task goes through, each named once in a row."""
    params = send(script(*steps), tenant=tenant)
    seen = kinds(await raw.call(JSONRPC, "SendStreamingMessage", params))
    found: list[str] = ["submitted"]
    for word in seen:
        if word not in ("task", "artifact", found[-1]):
            found.append(word)
    return found


@pytest.mark.req("R176", "Z06")
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], ["submitted", "working", "completed"]),
        ([{"reject": {"reason": "no"}}], ["submitted", "rejected"]),
        ([{"sleep_ms": 10}, {"reject": {"reason": "no"}}], ["submitted", "working", "rejected"]),
        ([{"fail": {}}], ["submitted", "working", "failed"]),
        ([{"ask": {"prompt": "?"}}], ["submitted", "working", "input_required"]),
        ([{"auth": {"type": "api_key"}}], ["submitted", "working", "auth_required"]),
    ],
)
async def test_the_edges_that_a_provider_takes(
    raw: Raw, steps: list[dict[str, Any]], expected: list[str]
) -> None:
    assert await states(raw, *steps) == expected


@pytest.mark.req("R176", "R181")
async def test_the_edges_out_of_an_interruption(raw: Raw, shared_stack: Stack) -> None:
    steps = [{"ask": {"prompt": "?"}}, {"auth": {"type": "api_key"}}]
    task = (await raw.call(JSONRPC, "SendMessage", send(script(*steps))))["task"]
    task_id = task["id"]
    follow = await Reader(raw, JSONRPC, task_id).began()
    await raw.call(JSONRPC, "SendMessage", send(text("a", taskId=task_id, messageId="b")))
    await until(raw, task_id, "AUTH_REQUIRED")
    async with http_client(headers=raw.headers()) as http:
        granted = {"type": "api_key", "api_key": "k-secret-1"}
        params = {"task_id": task_id, "auth_response": granted}
        answer = await http.post(
            f"{shared_stack.http}/aios/rpc", json=rpc("aios/task.authenticate", params)
        )
        assert "result" in answer.json(), answer.text
    items = await follow.rest()
    words = [word for word in kinds(items) if word not in ("task", "artifact")]
    assert words == ["working", "auth_required", "working", "completed"]
    assert "k-secret-1" not in str(items)


@pytest.mark.req("R176", "R178")
@pytest.mark.parametrize("state", ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED"])
async def test_a_task_is_canceled_in_every_open_state(
    start_stack: Callable[..., Stack], raw: Raw, state: str
) -> None:
    steps = {
        "SUBMITTED": {"sleep_ms": 60_000},
        "WORKING": {"sleep_ms": 60_000},
        "INPUT_REQUIRED": {"ask": {"prompt": "?"}},
        "AUTH_REQUIRED": {"auth": {"type": "api_key"}},
    }
    params = send(script(steps[state]), returnImmediately=True)
    task_id = (await raw.call(JSONRPC, "SendMessage", params))["task"]["id"]
    if state != "SUBMITTED":
        await until(raw, task_id, state)
    follow = await Reader(raw, JSONRPC, task_id).began()
    canceled = await raw.call(JSONRPC, "CancelTask", {"id": task_id})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert kinds(await follow.rest())[-1] == "canceled"
    with pytest.raises(Problem) as caught:
        await raw.call(JSONRPC, "SendMessage", send(text("x", taskId=task_id, messageId="b")))
    assert caught.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.req("R175", "Z02")
async def test_the_state_is_told_by_the_enumeration_and_not_by_words(raw: Raw) -> None:
    task = (
        await raw.call(
            JSONRPC,
            "SendMessage",
            send(script({"message": {"text": "TASK_STATE_FAILED, this failed, error"}})),
        )
    )["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.req("R174", "Z03", "Z04", "Z05")
async def test_a_result_that_was_said_is_an_artifact_too(raw: Raw) -> None:
    steps = [
        {"progress": {"percent": 50, "message": "half"}},
        {"message": {"text": "the answer is 42"}},
        {"complete": {"result": None}},
    ]
    items = await raw.call(JSONRPC, "SendStreamingMessage", send(script(*steps)))
    (streamed,) = [item["artifactUpdate"] for item in items if "artifactUpdate" in item]
    task_id = items[0]["task"]["id"]
    task = await raw.call(JSONRPC, "GetTask", {"id": task_id, "historyLength": 0})
    assert task["artifacts"] == [streamed["artifact"]]
    assert task["artifacts"][0]["parts"] == [{"text": "the answer is 42"}]
    assert "half" not in str(task["artifacts"])


@pytest.mark.req("R184")
async def test_an_answer_after_the_expiry_is_refused(raw: Raw) -> None:
    params = send(script({"ask": {"prompt": "?", "timeout_ms": 150}}))
    task = (await raw.call(JSONRPC, "SendMessage", params))["task"]
    assert task["status"]["message"]["metadata"]["aiosInterruption"]["expiresAt"]
    failed = await until(raw, task["id"], "FAILED")
    assert failed["metadata"]["aiosErrorData"]["waiting_for"] == "input"
    with pytest.raises(Problem) as caught:
        late = text("late", taskId=task["id"], messageId="b")
        await raw.call(JSONRPC, "SendMessage", send(late))
    assert caught.value.reason == "UNSUPPORTED_OPERATION"


@pytest.mark.req("R185", "Z16")
@pytest.mark.slow
async def test_an_answered_task_goes_on_where_it_stood_over_a_kill(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw], tmp_path: Path
) -> None:
    stack = start_stack()
    raw = connect(stack)
    before, after = tmp_path / "before", tmp_path / "after"
    steps = [{"touch": str(before)}, {"ask": {"prompt": "?"}}, {"touch": str(after)}]
    task = (await raw.call(JSONRPC, "SendMessage", send(script(*steps))))["task"]
    await asyncio.to_thread(stack.kill, "daemon")
    answer = text("go", taskId=task["id"], messageId="b")
    done = await raw.call(JSONRPC, "SendMessage", send(answer))
    assert done["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(before.read_text().splitlines()) == 1
    assert len(after.read_text().splitlines()) == 1


@pytest.mark.req("R189", "R191", "Z24", "Z26")
async def test_the_effects_of_a_repeated_message_happen_once(raw: Raw, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    extension = {"a2a-extensions": "urn:aios:ext:message-dedupe:1.0"}
    message = script({"touch": str(touched)}, messageId=f"effect-{time.time_ns()}")
    answers = await asyncio.gather(
        *(raw.call(JSONRPC, "SendMessage", send(message), extension) for _ in range(5))
    )
    assert len({answer["task"]["id"] for answer in answers}) == 1
    assert len(touched.read_text().splitlines()) == 1


@pytest.mark.req("R190", "R196", "Z28")
async def test_a_second_completion_changes_tells_and_posts_nothing(raw: Raw) -> None:
    async with Receiver() as receiver:
        params = send(
            script({"complete_twice": {"result": {"n": 1}}}),
            taskPushNotificationConfig={"url": receiver.url},
        )
        items = await raw.call(JSONRPC, "SendStreamingMessage", params)
        assert kinds(items).count("completed") == 1
        pushed = await receiver.until_state("TASK_STATE_COMPLETED")
        later = await raw.call(JSONRPC, "SendMessage", send(script({"sleep_ms": 300})))
        assert later["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert len(receiver.received) == len(pushed)
        assert kinds(pushed).count("completed") == 1
        task = await raw.call(JSONRPC, "GetTask", {"id": items[0]["task"]["id"]})
        assert [one["artifactId"] for one in task["artifacts"]] == ["aios-result"]


@pytest.mark.req("R194", "Z33")
async def test_a_repeated_chunk_is_dropped(raw: Raw) -> None:
    part = [{"type": "text", "text": "x"}]
    first = {"artifact_id": "a", "append": False, "last": False, "position": 0, "parts": part}
    last = {"artifact_id": "a", "append": True, "last": True, "position": 1, "parts": part}
    steps = [{"chunk": first}, {"chunk": first}, {"chunk": last}, {"chunk": last}]
    items = await raw.call(
        JSONRPC, "SendStreamingMessage", send(script(*steps, {"complete": {"result": None}}))
    )
    assert kinds(items) == ["task", "working", "artifact", "artifact", "completed"]


@pytest.mark.req("R199", "Z41")
async def test_a_result_that_does_not_satisfy_stays_completed(
    raw: Raw, shared_stack: Stack
) -> None:
    task = (await raw.call(JSONRPC, "SendMessage", send(script())))["task"]
    async with connect_native(f"unix:{shared_stack.socket}", shared_stack.token) as client:
        await client.accept(task["id"], False, reason="too short")
    judged = await raw.call(JSONRPC, "GetTask", {"id": task["id"]})
    assert judged["status"]["state"] == "TASK_STATE_COMPLETED"
    assert judged["metadata"]["aiosAcceptance"]["accepted"] is False
    assert judged["metadata"]["aiosAcceptance"]["reason"] == "too short"


@pytest.mark.req("H03")
async def test_a_canceled_task_stays_canceled_whatever_its_executor_reports(raw: Raw) -> None:
    params = send(script({"late_complete_ms": 200}), returnImmediately=True)
    task_id = (await raw.call(JSONRPC, "SendMessage", params))["task"]["id"]
    await until(raw, task_id, "WORKING")
    await raw.call(JSONRPC, "CancelTask", {"id": task_id})
    other = await raw.call(JSONRPC, "SendMessage", send(script({"sleep_ms": 600})))
    assert other["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task = await raw.call(JSONRPC, "GetTask", {"id": task_id})
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
    assert "artifacts" not in task


@pytest.mark.req("R197", "H03")
@pytest.mark.slow
async def test_a_lost_attempt_is_uncertain_and_never_repeated(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw], tmp_path: Path
) -> None:
    stack = start_stack()
    raw = connect(stack)
    touched = tmp_path / "touched"
    params = send(script({"touch": str(touched)}, {"crash": True}), returnImmediately=True)
    task_id = (await raw.call(JSONRPC, "SendMessage", params))["task"]["id"]
    task = await until(raw, task_id, "FAILED")
    assert task["metadata"]["aiosOutcomeCertainty"] == "uncertain"
    assert task["metadata"]["aiosRetryPolicy"] == "manual_review"
    assert task["metadata"]["aiosFailureClass"] == "task_failed"
    assert len(touched.read_text().splitlines()) == 1


@pytest.mark.req("R153", "X43")
async def test_every_a2a_state_has_its_product_status(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw]
) -> None:
    stack = start_stack(max_concurrent_tasks=1)
    raw = connect(stack)

    async def made(*steps: dict[str, Any]) -> str:
        params = send(script(*steps), returnImmediately=True)
        return str((await raw.call(JSONRPC, "SendMessage", params))["task"]["id"])

    ids = {
        "COMPLETED": await made(),
        "FAILED": await made({"fail": {"message": "no"}}),
        "REJECTED": await made({"reject": {"reason": "no"}}),
        "CANCELED": await made({"ask": {"prompt": "?"}}),
    }
    for state in ("COMPLETED", "FAILED", "REJECTED"):
        await until(raw, ids[state], state)
    await raw.call(JSONRPC, "CancelTask", {"id": ids["CANCELED"]})
    ids["WORKING"] = await made({"sleep_ms": 60_000})
    await until(raw, ids["WORKING"], "WORKING")
    ids["SUBMITTED"] = await made()
    expected = {
        "SUBMITTED": ("queued", None),
        "WORKING": ("processing", None),
        "COMPLETED": ("completed", None),
        "FAILED": ("failed", "error"),
        "CANCELED": ("cancelled", None),
        "REJECTED": ("failed", "rejected"),
    }
    async with http_client(headers=raw.headers()) as http:
        for state, (status, reason) in expected.items():
            task = await raw.call(JSONRPC, "GetTask", {"id": ids[state]})
            assert task["status"]["state"] == f"TASK_STATE_{state}"
            answer = await http.get(f"{stack.http}/api/v1/product/tasks/{ids[state]}")
            product = answer.json()["data"]
            product = product.get("product", product)
            assert product["status"] == status
            if reason:
                assert product["reason"] == reason
