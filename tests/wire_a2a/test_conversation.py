"""Whole conversations of the official Python client, on each binding."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict

from tests.wire_a2a.official import Official, last_state, task_id_of
from tests.wire_a2a.raw import JSONRPC, Problem
from tests.wire_a2a.said import kinds, script, send, text, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw


@pytest.fixture(params=[True, False], ids=["streaming", "unary"])
async def official(
    shared_stack: Stack, binding: str, request: pytest.FixtureRequest
) -> AsyncIterator[Official]:
    client = await Official.open(shared_stack, binding, streaming=request.param)
    yield client
    await client.close()


@pytest.mark.req("R152", "R174", "R176", "R180")
async def test_a_task_runs_to_its_end_and_its_content_can_be_read_without_a_stream(
    official: Official,
) -> None:
    answers = await official.say(
        send(
            script(
                {"message": {"text": "on my way"}},
                {"artifact": {"name": "report", "parts": [{"type": "text", "text": "words"}]}},
                {"complete": {"result": {"answer": 42}}},
            )
        )
    )
    assert last_state(answers) == "TASK_STATE_COMPLETED"
    task = await official.get(task_id_of(answers))
    assert [artifact.name for artifact in task.artifacts] == ["report", "result"]
    assert task.artifacts[0].parts[0].text == "words"
    assert MessageToDict(task.artifacts[1].parts[0].data) == {"answer": 42}
    roles = [a2a_pb2.Role.Name(message.role) for message in task.history]
    assert roles == ["ROLE_USER", "ROLE_AGENT"]
    assert all(message.task_id == task.id for message in task.history)
    assert all(message.context_id == task.context_id for message in task.history)


@pytest.mark.req("R176", "R181")
async def test_a_question_is_answered_in_the_same_task_and_context(official: Official) -> None:
    asked = await official.say(
        send(script({"ask": {"prompt": "Where to?", "options": [{"id": "rome"}]}}, messageId="a"))
    )
    assert last_state(asked) == "TASK_STATE_INPUT_REQUIRED"
    task_id = task_id_of(asked)
    task = await official.get(task_id)
    prompt = task.status.message
    assert prompt.parts[0].text == "Where to?"
    assert MessageToDict(prompt.parts[1].data)["options"] == [{"id": "rome", "label": "rome"}]
    answer = user([{"data": {"choice": "rome"}}], messageId="b", taskId=task_id)
    answered = await official.say(send(answer))
    assert last_state(answered) == "TASK_STATE_COMPLETED"
    task = await official.get(task_id)
    assert [message.message_id for message in task.history] == [
        "a",
        prompt.message_id,
        "b",
    ]
    result = MessageToDict(task.artifacts[0].parts[0].data)
    assert result["inputs"] == [{"choice": "rome"}]


async def test_an_answer_in_words_reaches_the_task_as_text(official: Official) -> None:
    asked = await official.say(send(script({"ask": {"prompt": "Say it"}}, messageId="a")))
    task_id = task_id_of(asked)
    context_id = asked[0].task.context_id
    # The same message id again, as careless clients send it: it still is an answer.
    answer = text("loud", taskId=task_id, contextId=context_id, messageId="a")
    answered = await official.say(send(answer))
    assert last_state(answered) == "TASK_STATE_COMPLETED"
    task = await official.get(task_id)
    assert MessageToDict(task.artifacts[0].parts[0].data)["inputs"] == [{"text": "loud"}]
    assert [message.parts[0].text for message in task.history[1:]] == ["Say it", "loud"]


async def test_a_canceled_task_is_canceled_for_every_reader(
    official: Official, raw: Raw, binding: str
) -> None:
    params = send(script({"sleep_ms": 60_000}), returnImmediately=True)
    task_id = (await raw.call(binding, "SendMessage", params))["task"]["id"]
    canceled = await official.cancel(task_id)
    assert canceled.status.state == a2a_pb2.TASK_STATE_CANCELED
    assert (await official.get(task_id)).status.state == a2a_pb2.TASK_STATE_CANCELED


async def test_a_direct_message_comes_alone(official: Official) -> None:
    answers = await official.say(send(script({"direct_message": {"text": "hello"}})))
    assert len(answers) == 1
    assert answers[0].message.parts[0].text == "hello"
    assert answers[0].message.role == a2a_pb2.ROLE_AGENT
    # The daemon keeps a task for it all the same.
    assert (await official.get(answers[0].message.task_id)).id == answers[0].message.task_id


@pytest.mark.req("R178")
async def test_a_rejected_task_is_rejected(official: Official) -> None:
    answers = await official.say(send(script({"reject": {"reason": "not today"}})))
    assert last_state(answers) == "TASK_STATE_REJECTED"
    task = await official.get(task_id_of(answers))
    metadata = MessageToDict(task.metadata)
    assert metadata["aiosFailureClass"] == "task_rejected"
    assert metadata["aiosOutcomeCertainty"] == "not_started"


@pytest.mark.req("R197")
async def test_a_failed_task_says_why(official: Official) -> None:
    answers = await official.say(send(script({"fail": {"message": "no luck"}})))
    assert last_state(answers) == "TASK_STATE_FAILED"
    task = await official.get(task_id_of(answers))
    assert task.status.message.parts[0].text == "no luck"
    metadata = MessageToDict(task.metadata)
    assert metadata["aiosFailureClass"] == "task_failed"
    assert metadata["aiosOutcomeCertainty"] == "certain"
    assert metadata["aiosRetryPolicy"] == "none"


@pytest.mark.req("R154")
async def test_a_timeout_is_a_failure_here(raw: Raw, binding: str) -> None:
    answer = await raw.call(
        binding, "SendMessage", send(script({"sleep_ms": 60_000}), tenant="lab.script.brief")
    )
    task = answer["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["metadata"]["aiosReason"] == "timeout"


@pytest.mark.req("R181", "R182", "R183")
async def test_a_missing_authorization_is_told_and_takes_no_credential_in_a_message(
    raw: Raw, binding: str
) -> None:
    params = send(script({"auth": {"type": "api_key", "reason": "the mailbox"}}))
    task = (await raw.call(binding, "SendMessage", params))["task"]
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    message = task["status"]["message"]
    assert message["parts"][0]["text"] == "the mailbox"
    record = message["metadata"]["aiosInterruption"]
    assert record["kind"] == "machine_credential"
    assert record["expiresAt"]
    assert {"action", "scope", "satisfiableBy", "idempotencyPoint", "followUp"} <= set(record)
    with pytest.raises(Problem) as caught:
        secret = user([{"data": {"api_key": "k-123456"}}], taskId=task["id"], messageId="s")
        await raw.call(binding, "SendMessage", send(secret))
    assert caught.value.reason == "UNSUPPORTED_OPERATION"
    still = await raw.call(binding, "GetTask", {"id": task["id"]})
    assert still["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert "k-123456" not in str(still)
    await raw.call(binding, "CancelTask", {"id": task["id"]})


@pytest.mark.req("R182", "Z12")
async def test_a_credential_in_an_answer_is_refused_and_not_kept(raw: Raw, binding: str) -> None:
    asked = await raw.call(binding, "SendMessage", send(script({"ask": {"prompt": "?"}})))
    task_id = asked["task"]["id"]
    for parts in ([{"text": "Bearer abcdefghijkl"}], [{"data": {"password": "swordfish"}}]):
        with pytest.raises(Problem) as caught:
            await raw.call(
                binding, "SendMessage", send(user(parts, taskId=task_id, messageId="pw"))
            )
        assert caught.value.reason == "INVALID_PARAMS"
    task = await raw.call(binding, "GetTask", {"id": task_id})
    assert "swordfish" not in str(task)
    assert "abcdefghijkl" not in str(task)
    await raw.call(binding, "CancelTask", {"id": task_id})


async def test_a_follow_up_keeps_the_context_and_another_one_is_refused(
    raw: Raw, binding: str
) -> None:
    message = script({"ask": {"prompt": "?"}}, contextId="my-context")
    task = (await raw.call(binding, "SendMessage", send(message)))["task"]
    assert task["contextId"] == "my-context"
    with pytest.raises(Problem) as caught:
        wrong = text("x", taskId=task["id"], contextId="another", messageId="b")
        await raw.call(binding, "SendMessage", send(wrong))
    assert caught.value.reason == "INVALID_PARAMS"
    assert len((await raw.call(binding, "GetTask", {"id": task["id"]}))["history"]) == 1
    done = await raw.call(binding, "SendMessage", send(text("x", taskId=task["id"], messageId="b")))
    assert done["task"]["contextId"] == "my-context"
    again = await raw.call(binding, "SendMessage", send(script(contextId="my-context")))
    assert again["task"]["contextId"] == "my-context"
    assert again["task"]["id"] != task["id"]


async def test_return_immediately_does_not_wait(raw: Raw, binding: str) -> None:
    params = send(script({"sleep_ms": 30_000}), returnImmediately=True)
    async with asyncio.timeout(5):
        task = (await raw.call(binding, "SendMessage", params))["task"]
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    await raw.call(binding, "CancelTask", {"id": task["id"]})


async def test_history_is_cut_to_its_newest_messages(raw: Raw, binding: str) -> None:
    steps = [{"message": {"text": str(number), "message_id": f"n{number}"}} for number in range(4)]
    task = (await raw.call(binding, "SendMessage", send(script(*steps), historyLength=2)))["task"]
    assert [message["messageId"] for message in task["history"]] == ["n2", "n3"]
    for length, expected in ((0, None), (1, ["n3"]), (99, ["m-1", "n0", "n1", "n2", "n3"])):
        shown = await raw.call(binding, "GetTask", {"id": task["id"], "historyLength": length})
        if expected is None:
            assert "history" not in shown
        else:
            assert [message["messageId"] for message in shown["history"]] == expected


@pytest.mark.req("R156")
async def test_a_paused_task_is_working_and_says_so(raw: Raw, binding: str) -> None:
    params = send(script({"sleep_ms": 60_000}), returnImmediately=True)
    task_id = (await raw.call(binding, "SendMessage", params))["task"]["id"]
    await until_working(raw, task_id)
    headers = {"a2a-extensions": "urn:aios:ext:pause-resume:1.0"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "PauseTask", "params": {"id": task_id}}
    assert (await raw.post(body)).json()["error"]["code"] == -32601
    answer = await raw.post(body, headers)
    assert answer.json()["result"]["metadata"]["aiosPaused"] is True
    assert answer.headers["a2a-extensions"] == headers["a2a-extensions"]
    task = await raw.call(binding, "GetTask", {"id": task_id})
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert task["metadata"]["aiosPaused"] is True
    listed = await raw.call(binding, "ListTasks", {"status": "TASK_STATE_WORKING"})
    assert task_id in [one["id"] for one in listed["tasks"]]
    resumed = await raw.http.post(f"{raw.url}/tasks/{task_id}:resume", headers=raw.headers(headers))
    assert "aiosPaused" not in resumed.json()["metadata"]
    await raw.call(binding, "CancelTask", {"id": task_id})


async def until_working(raw: Raw, task_id: str) -> None:
    async with asyncio.timeout(20):
        while True:
            task = await raw.call(JSONRPC, "GetTask", {"id": task_id})
            if task["status"]["state"] == "TASK_STATE_WORKING":
                return
            await asyncio.sleep(0.02)


@pytest.mark.req("R193")
async def test_an_artifact_streams_chunk_by_chunk(raw: Raw, binding: str) -> None:
    def chunk(words: str, *, append: bool, last: bool) -> dict[str, Any]:
        part = {"type": "text", "text": words}
        content = {"artifact_id": "a", "name": "n", "append": append, "last": last}
        return {"chunk": content | {"parts": [part]}}

    items = await raw.call(
        binding,
        "SendStreamingMessage",
        send(
            script(
                chunk("one", append=False, last=False),
                chunk("two", append=True, last=False),
                chunk("three", append=True, last=True),
                {"complete": {"result": None}},
            )
        ),
    )
    assert kinds(items) == [
        "task",
        "working",
        "artifact",
        "artifact",
        "artifact",
        "completed",
    ]
    chunks = [item["artifactUpdate"] for item in items if "artifactUpdate" in item]
    assert [one["artifact"]["parts"][0]["text"] for one in chunks] == ["one", "two", "three"]
    assert [one.get("append", False) for one in chunks] == [False, True, True]
    assert [one.get("lastChunk", False) for one in chunks] == [False, False, True]
    task_id = items[0]["task"]["id"]
    task = await raw.call(binding, "GetTask", {"id": task_id})
    assert [part["text"] for part in task["artifacts"][0]["parts"]] == ["one", "two", "three"]


@pytest.mark.req("R193", "R194", "R195")
@pytest.mark.parametrize(
    "steps",
    [
        [{"chunk": {"artifact_id": "a", "append": True, "last": True, "parts": []}}],
        [
            {"chunk": {"artifact_id": "a", "append": False, "last": True, "parts": []}},
            {"chunk": {"artifact_id": "a", "append": True, "last": True, "parts": []}},
        ],
        [
            {"chunk": {"artifact_id": "a", "append": False, "last": False, "parts": []}},
            {
                "chunk": {
                    "artifact_id": "a",
                    "append": True,
                    "last": True,
                    "position": 5,
                    "parts": [],
                }
            },
        ],
        [{"chunk": {"artifact_id": "a", "append": False, "last": False, "parts": []}}],
    ],
    ids=["append-to-unknown", "append-to-sealed", "gap", "never-sealed"],
)
async def test_a_broken_artifact_fails_its_task_as_a_protocol_error(
    raw: Raw, steps: list[dict[str, Any]]
) -> None:
    part = {"type": "text", "text": "x"}
    for step in steps:
        step["chunk"]["parts"] = [part]
    task = (await raw.call(JSONRPC, "SendMessage", send(script(*steps))))["task"]
    assert task["status"]["state"] == "TASK_STATE_FAILED"


async def test_a_text_message_without_a_default_capability_says_what_to_do(
    raw: Raw, binding: str
) -> None:
    with pytest.raises(Problem) as caught:
        await raw.call(binding, "SendMessage", send(text("hello"), tenant=""))
    assert "metadata.capabilityId" in caught.value.message
    answer = await raw.call(
        binding,
        "SendMessage",
        send(text("hello", metadata={"capabilityId": "lab.script"}), tenant=""),
    )
    assert answer["task"]["metadata"]["aiosCapabilityId"] == "lab.script"


@pytest.mark.req("R177")
async def test_an_answer_to_a_task_that_does_not_wait_is_refused(raw: Raw, binding: str) -> None:
    params = send(script({"sleep_ms": 60_000}), returnImmediately=True)
    task_id = (await raw.call(binding, "SendMessage", params))["task"]["id"]
    await until_working(raw, task_id)
    with pytest.raises(Problem) as caught:
        await raw.call(binding, "SendMessage", send(text("now", taskId=task_id, messageId="b")))
    assert caught.value.reason == "UNSUPPORTED_OPERATION"
    await raw.call(binding, "CancelTask", {"id": task_id})
