"""Streams: snapshot first, no gap, no end at a question, nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.wire_a2a.raw import BINDINGS, JSONRPC, REST, Problem, Reader
from tests.wire_a2a.said import begun, chunks, kinds, parts_of, script, send, text, until

if TYPE_CHECKING:
    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw

RESUMABLE = {"a2a-extensions": "urn:aios:ext:resumable-streams:1.0"}


async def test_a_send_stream_ends_at_a_question_and_a_subscription_does_not(
    raw: Raw, binding: str
) -> None:
    params = send(script({"ask": {"prompt": "?"}}))
    asked = await raw.call(binding, "SendStreamingMessage", params)
    assert kinds(asked) == ["task", "working", "input_required"]
    task_id = asked[0]["task"]["id"]
    items: list[dict[str, Any]] = []
    seen = asyncio.Event()

    async def follow() -> None:
        async for item in raw.stream(binding, "SubscribeToTask", {"id": task_id}):
            items.append(item)
            seen.set()

    following = asyncio.create_task(follow())
    async with asyncio.timeout(20):
        await seen.wait()
        answer = text("go", taskId=task_id, messageId="b")
        answered = await raw.call(binding, "SendStreamingMessage", send(answer))
        await following
    # The snapshot may show the task when it has already come to its end.
    ended = answered[0]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert kinds(answered)[0] == "task"
    assert ended or kinds(answered)[-1] == "completed"
    assert items[0]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert kinds(items)[1:] == ["working", "artifact", "completed"]


@pytest.mark.req("R180", "H01")
async def test_a_snapshot_and_what_follows_it_never_miss_or_repeat_a_chunk(
    raw: Raw, binding: str
) -> None:
    count = 60
    steps = chunks([str(number) for number in range(count)])
    task_id = await begun(raw, {"sleep_ms": 50}, *steps, {"complete": {"result": None}})

    async def read(delay: float) -> list[str]:
        await asyncio.sleep(delay)
        try:
            return parts_of(await raw.call(binding, "SubscribeToTask", {"id": task_id}))
        except Problem as problem:
            assert problem.reason == "UNSUPPORTED_OPERATION"
            return [str(number) for number in range(count)]

    readers = await asyncio.gather(*(read(0.02 * number) for number in range(20)))
    for texts in readers:
        assert texts == [str(number) for number in range(count)]


async def test_any_number_of_readers_see_the_same(raw: Raw, binding: str) -> None:
    task_id = await begun(raw, {"ask": {"prompt": "?"}}, {"message": {"text": "thanks"}})
    await until(raw, task_id, "INPUT_REQUIRED")
    readers = [await Reader(raw, binding, task_id).began() for _ in range(5)]
    one = raw.stream(binding, "SubscribeToTask", {"id": task_id})
    async with aclosing(one):
        assert "task" in await anext(one)
    await raw.call(binding, "SendMessage", send(text("x", taskId=task_id, messageId="b")))
    seen = [await reader.rest() for reader in readers]
    assert all(items[1:] == seen[0][1:] for items in seen)
    assert kinds(seen[0])[-1] == "completed"


@pytest.mark.req("H02")
async def test_a_client_that_goes_away_disturbs_nothing(raw: Raw, binding: str) -> None:
    for _ in range(10):
        params = send(script({"sleep_ms": 100}))
        items = raw.stream(binding, "SendStreamingMessage", params)
        async with aclosing(items):
            first = await anext(items)
        await until(raw, first["task"]["id"], "COMPLETED")


@pytest.mark.slow
async def test_thirty_readers_are_not_delayed_by_one_who_stands_still(
    raw: Raw, shared_stack: Stack
) -> None:
    steps = [{"ask": {"prompt": "ready?"}}, *chunks(["x" * 4_500] * 200)]
    task_id = await begun(raw, *steps, {"complete": {"result": None}})
    await until(raw, task_id, "INPUT_REQUIRED")
    address = urlsplit(shared_stack.http)
    stalled = socket.create_connection((address.hostname, address.port))
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = [f"POST /a2a/tasks/{task_id}:subscribe HTTP/1.1", f"Host: {address.netloc}"]
    head += [f"{name}: {value}" for name, value in raw.headers().items()]
    stalled.sendall(("\r\n".join([*head, "Content-Length: 0", "", ""])).encode())
    try:
        readers = [await Reader(raw, BINDINGS[number % 3], task_id).began() for number in range(30)]
        await raw.call(
            JSONRPC,
            "SendMessage",
            send(text("go", taskId=task_id, messageId="b"), returnImmediately=True),
        )
        seen = [await reader.rest(60) for reader in readers]
        assert all(kinds(items)[-1] == "completed" for items in seen)
        assert all(len(parts_of(items)) == 200 for items in seen)
        began = time.monotonic()
        await raw.call(REST, "SendMessage", send(script()))
        assert time.monotonic() - began < 5
    finally:
        stalled.close()


@pytest.mark.req("H01")
async def test_a_stream_resumes_behind_the_last_item_that_was_read(raw: Raw, binding: str) -> None:
    steps: list[dict[str, Any]] = [{"progress": {"percent": number}} for number in range(1, 4)]
    delivered = chunks([str(number) for number in range(10)])
    message = script({"sleep_ms": 100}, *delivered, *steps)
    whole = await raw.call(binding, "SendStreamingMessage", send(message), RESUMABLE)
    numbers = [number_of(item) for item in whole]
    assert numbers == sorted(numbers)
    task_id = whole[0]["task"]["id"]
    for cut in range(1, len(whole)):
        after = str(numbers[cut - 1])
        rest = await raw.call(
            binding, "SubscribeToTask", {"id": task_id}, RESUMABLE | {"aios-after": after}
        )
        assert rest == whole[cut:]
    with pytest.raises(Problem) as caught:
        await raw.call(
            binding,
            "SubscribeToTask",
            {"id": task_id},
            RESUMABLE | {"aios-after": str(numbers[-1])},
        )
    assert caught.value.reason == "UNSUPPORTED_OPERATION"
    with pytest.raises(Problem) as caught:
        await raw.call(
            binding, "SubscribeToTask", {"id": task_id}, RESUMABLE | {"aios-after": "99999"}
        )
    assert caught.value.reason == "INVALID_PARAMS"


def number_of(item: dict[str, Any]) -> int:
    """The event number of a stream's item."""
    ((_, value),) = item.items()
    return int(value["metadata"]["aiosSequence"])


async def test_items_carry_no_number_unless_it_is_asked_for(raw: Raw, binding: str) -> None:
    items = await raw.call(binding, "SendStreamingMessage", send(script()))
    assert "aiosSequence" not in str(items)


@pytest.mark.req("R189", "Z24")
async def test_a_message_sent_twice_makes_one_task_when_the_client_asks_for_that(
    raw: Raw, binding: str
) -> None:
    extension = {"a2a-extensions": "urn:aios:ext:message-dedupe:1.0"}
    message = script({"sleep_ms": 200}, messageId=f"once-{binding}-{time.time_ns()}")
    first, second = await asyncio.gather(
        *(raw.call(binding, "SendMessage", send(message), extension) for _ in range(2))
    )
    assert first["task"]["id"] == second["task"]["id"]
    streamed = await raw.call(binding, "SendStreamingMessage", send(message), extension)
    assert streamed[0]["task"]["id"] == first["task"]["id"]
    other = script({"sleep_ms": 1}, messageId=message["messageId"])
    with pytest.raises(Problem) as caught:
        await raw.call(binding, "SendMessage", send(other), extension)
    assert caught.value.reason == "INVALID_PARAMS"
    # Without the extension ids mean nothing: real clients reuse them.
    third = await raw.call(binding, "SendMessage", send(message))
    assert third["task"]["id"] != first["task"]["id"]


@pytest.mark.req("R189", "H04")
async def test_an_idempotency_key_makes_one_task(raw: Raw, binding: str) -> None:
    key = {"idempotency-key": f"key-{binding}-{time.time_ns()}"}
    tasks = [await raw.call(binding, "SendMessage", send(script()), key) for _ in range(2)]
    assert tasks[0]["task"]["id"] == tasks[1]["task"]["id"]
