"""Push notifications: configurations, and what arrives at a receiver (a2a.md 5.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_a2a.raw import JSONRPC, Problem
from tests.wire_a2a.receiver import Receiver
from tests.wire_a2a.said import kinds, script, send, text

if TYPE_CHECKING:
    from tests.wire_a2a.raw import Raw

CREATE, GET = "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig"
LIST, DELETE = "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"
STEPS: tuple[dict[str, Any], ...] = (
    {"progress": {"percent": 10, "message": "begun", "current_step": 1, "total_steps": 2}},
    {"message": {"text": "hello"}},
    {
        "artifact": {
            "name": "n",
            "type": "report",
            "mime_type": "text/plain",
            "parts": [{"type": "text", "text": "words"}, {"type": "data", "data": {"n": 1.5}}],
        }
    },
    {"complete": {"result": {"answer": 42}}},
)


@pytest.mark.req("R190")
async def test_a_receiver_gets_what_a_stream_shows(raw: Raw, binding: str) -> None:
    async with Receiver() as receiver:
        config = {
            "url": receiver.url,
            "token": "my-token",
            "authentication": {"scheme": "Bearer", "credentials": "let-me-in"},
        }
        params = send(script(*STEPS), taskPushNotificationConfig=config)
        items = await raw.call(binding, "SendStreamingMessage", params)
        pushed = await receiver.until_state("TASK_STATE_COMPLETED")
        # The stream begins with the task itself, the pushes with its first status.
        assert pushed[0]["statusUpdate"]["status"]["state"] == "TASK_STATE_SUBMITTED"
        assert [numberless(item) for item in pushed[1:]] == [numberless(item) for item in items[1:]]
        for received in receiver.received:
            assert len(received.body) == 1
            assert received.headers["content-type"] == "application/a2a+json"
            assert received.headers["authorization"] == "Bearer let-me-in"
            assert received.headers["x-a2a-notification-token"] == "my-token"


def numberless(item: Any) -> Any:
    """The item with 1.0 and 1 told as one: JSON knows one sort of number."""
    if isinstance(item, dict):
        return {key: numberless(value) for key, value in sorted(item.items())}
    if isinstance(item, list):
        return [numberless(value) for value in item]
    return float(item) if isinstance(item, int) and not isinstance(item, bool) else item


@pytest.mark.parametrize(
    ("steps", "states"),
    [
        ([{"fail": {"message": "no"}}], ["submitted", "working", "failed"]),
        ([{"reject": {"reason": "no"}}], ["submitted", "rejected"]),
        (
            [{"chunk": {"artifact_id": "a", "append": True, "last": True, "parts": []}}],
            ["submitted", "working", "failed"],
        ),
    ],
)
async def test_every_end_is_pushed(
    raw: Raw, steps: list[dict[str, Any]], states: list[str]
) -> None:
    if "chunk" in steps[0]:
        steps[0]["chunk"]["parts"] = [{"type": "text", "text": "x"}]
    async with Receiver() as receiver:
        params = send(script(*steps), taskPushNotificationConfig={"url": receiver.url})
        items = await raw.call(JSONRPC, "SendStreamingMessage", params)
        pushed = await receiver.until(len(states))
        assert kinds(pushed) == states
        assert numberless(pushed[-1]) == numberless(items[-1])


async def test_a_question_is_pushed_and_so_is_what_follows_the_answer(raw: Raw) -> None:
    async with Receiver() as receiver:
        params = send(
            script({"ask": {"prompt": "?", "options": [{"id": "a"}]}}),
            taskPushNotificationConfig={"url": receiver.url},
        )
        items = await raw.call(JSONRPC, "SendStreamingMessage", params)
        pushed = await receiver.until_state("TASK_STATE_INPUT_REQUIRED")
        assert numberless(pushed[-1]) == numberless(items[-1])
        task_id = items[0]["task"]["id"]
        await raw.call(JSONRPC, "SendMessage", send(text("a", taskId=task_id, messageId="b")))
    # The receiver is gone: that changes nothing for the task.


@pytest.mark.req("R198")
async def test_a_receiver_that_fails_first_gets_everything_in_order_and_the_task_completes(
    raw: Raw,
) -> None:
    async with Receiver(failures=1) as receiver:
        params = send(script(*STEPS), taskPushNotificationConfig={"url": receiver.url})
        answer = await raw.call(JSONRPC, "SendMessage", params)
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        pushed = await receiver.until_state("TASK_STATE_COMPLETED", within_s=40)
        assert kinds(pushed) == [
            "submitted",
            "working",
            "working",
            "working",
            "artifact",
            "artifact",
            "completed",
        ]


async def test_configurations_are_made_read_listed_and_removed(raw: Raw, binding: str) -> None:
    async with Receiver() as receiver:
        params = send(script({"sleep_ms": 60_000}), returnImmediately=True)
        task_id = (await raw.call(binding, "SendMessage", params))["task"]["id"]
        first = await raw.call(binding, CREATE, {"taskId": task_id, "url": receiver.url})
        assert first["id"]
        assert first["url"] == receiver.url
        assert first["taskId"] == task_id
        named = {
            "taskId": task_id,
            "id": "mine",
            "url": receiver.url,
            "token": "t",
            "authentication": {"scheme": "Basic", "credentials": "c2VjcmV0"},
        }
        assert await raw.call(binding, CREATE, named) == named
        got = await raw.call(binding, GET, {"taskId": task_id, "id": "mine"})
        assert got["url"] == receiver.url
        assert got["authentication"] == {"scheme": "Basic"}
        listed = await raw.call(binding, LIST, {"taskId": task_id})
        assert {one["id"] for one in listed["configs"]} == {first["id"], "mine"}
        for _ in range(2):
            assert await raw.call(binding, DELETE, {"taskId": task_id, "id": "mine"}) in ({}, None)
        with pytest.raises(Problem) as caught:
            await raw.call(binding, GET, {"taskId": task_id, "id": "mine"})
        assert caught.value.reason == "TASK_NOT_FOUND"
        await raw.call(binding, DELETE, {"taskId": task_id, "id": first["id"]})
        await raw.call(binding, "CancelTask", {"id": task_id})
        # Terminal tasks take configurations too, and they stay readable.
        late = await raw.call(binding, CREATE, {"taskId": task_id, "url": receiver.url, "id": "l"})
        assert late["id"] == "l"
        assert (await raw.call(binding, GET, {"taskId": task_id, "id": "l"}))["id"] == "l"
        assert not [
            one
            for one in receiver.received
            if one.headers.get("x-a2a-notification-token") == "t"
            and one.body["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
        ]


@pytest.mark.parametrize(
    "url", ["", "ftp://example.org/", "nonsense", "http://10.0.0.1/", "http://169.254.169.254/x"]
)
async def test_a_target_that_is_forbidden_is_refused(raw: Raw, binding: str, url: str) -> None:
    task = (await raw.call(binding, "SendMessage", send(script())))["task"]
    with pytest.raises(Problem) as caught:
        await raw.call(binding, CREATE, {"taskId": task["id"], "url": url})
    assert caught.value.reason == "INVALID_PARAMS"
    assert caught.value.fields == ("url",)
    with pytest.raises(Problem) as caught:
        config = {"url": url}
        await raw.call(binding, "SendMessage", send(script(), taskPushNotificationConfig=config))
    assert caught.value.reason == "INVALID_PARAMS"
