"""What A2A clients keep when the daemon dies: tasks, streams, cancels, messages under way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.http import http_client
from tests.wire_a2a.raw import BINDINGS, JSONRPC, Reader, rpc
from tests.wire_a2a.said import begun, chunks, kinds, parts_of, script, send, text, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw


@pytest.mark.req("H01", "H03", "R180")
@pytest.mark.slow
async def test_tasks_streams_and_cancels_survive_the_death_of_the_daemon(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw]
) -> None:
    stack = start_stack(webhook_allow=["127.0.0.0/8"])
    raw = connect(stack)
    delivered = chunks([str(number) for number in range(30)])
    steps = [step for chunk in delivered for step in (chunk, {"sleep_ms": 60})]
    task_id = await begun(raw, *steps, {"complete": {"result": {"ok": True}}})
    canceled_id = await begun(raw, {"sleep_ms": 60_000})
    await until(raw, canceled_id, "WORKING")
    following = [await Reader(raw, binding, task_id).began(5) for binding in BINDINGS]
    await raw.call(JSONRPC, "CancelTask", {"id": canceled_id})
    await asyncio.to_thread(stack.kill, "daemon")
    streams = [await reader.rest(60) for reader in following]
    for items in streams:
        assert parts_of(items)[:30] == [str(number) for number in range(30)]
        assert kinds(items)[-1] == "completed"
    shown = [
        await raw.call(binding, "GetTask", {"id": task_id})
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    ]
    assert shown[0] == shown[1] == shown[2]
    assert [part["text"] for part in shown[0]["artifacts"][0]["parts"]] == [
        str(number) for number in range(30)
    ]
    canceled = await raw.call(JSONRPC, "GetTask", {"id": canceled_id})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.req("R180")
async def test_one_task_is_the_same_on_every_wire_before_and_after_a_kill(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw]
) -> None:
    stack = start_stack()
    raw = connect(stack)
    content = {
        "artifact": {
            "name": "all",
            "parts": [
                {"type": "text", "text": "words"},
                {"type": "data", "data": {"n": 1, "list": [1, 2.5, None, "x"]}},
                {"type": "file", "file": {"uri": "https://example.org/f", "mime_type": "a/b"}},
            ],
        }
    }
    steps = [content, {"ask": {"prompt": "?"}}]
    async with http_client(timeout=60, headers=raw.headers()) as http:

        async def aios(method: str, params: dict[str, Any]) -> Any:
            answer = await http.post(f"{stack.http}/aios/rpc", json=rpc(method, params))
            return answer.json()["result"]

        created = await aios(
            "aios/task.create",
            {"capability_id": "lab.script", "arguments": {"steps": steps}, "async": True},
        )
        from_aios = created["task_id"]
        from_a2a = {
            binding: (
                await raw.call(binding, "SendMessage", send(script(*steps), returnImmediately=True))
            )["task"]["id"]
            for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
        }
        ids = [from_aios, *from_a2a.values()]
        for task_id in ids:
            await until(raw, task_id, "INPUT_REQUIRED")

        async def everything() -> list[Any]:
            seen = []
            for task_id in ids:
                wires = [
                    await raw.call(binding, "GetTask", {"id": task_id})
                    for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
                ]
                assert wires[0] == wires[1] == wires[2]
                native = await aios("aios/task.get", {"task_id": task_id})
                assert native["status"] == "input_required"
                assert native["context_id"] == wires[0]["contextId"]
                artifact_id = native["artifacts"][0]["id"]
                assert wires[0]["artifacts"][0]["artifactId"] == artifact_id
                whole = await aios(
                    "aios/artifact.get", {"task_id": task_id, "artifact_id": artifact_id}
                )
                seen.append((wires[0], whole))
            return seen

        before = await everything()
        await asyncio.to_thread(stack.kill, "daemon")
        assert await everything() == before
        # Each wire answers what the others began.
        await raw.call(JSONRPC, "SendMessage", send(text("x", taskId=from_aios, messageId="b")))
        for task_id in from_a2a.values():
            await aios("aios/task.input", {"task_id": task_id, "input": {"text": "x"}})
        for task_id in ids:
            task = await until(raw, task_id, "COMPLETED")
            result = task["artifacts"][-1]["parts"][0]["data"]
            assert result == {"inputs": [{"text": "x"}], "attempt": 1}


@pytest.mark.req("H04", "I16")
@pytest.mark.slow
async def test_every_message_makes_one_task_although_the_daemon_dies_under_them(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw]
) -> None:
    stack = start_stack()
    raw = connect(stack)
    sending = [
        asyncio.create_task(
            raw.call(
                BINDINGS[number % 3],
                "SendMessage",
                send(script({"sleep_ms": 1500}, contextId="through-a-kill")),
            )
        )
        for number in range(12)
    ]
    await asyncio.to_thread(stack.kill, "daemon")
    answers = await asyncio.gather(*sending)
    assert {answer["task"]["status"]["state"] for answer in answers} == {"TASK_STATE_COMPLETED"}
    page = await raw.call(JSONRPC, "ListTasks", {"contextId": "through-a-kill"})
    assert {task["id"] for task in page["tasks"]} == {answer["task"]["id"] for answer in answers}
    assert page["totalSize"] == 12
