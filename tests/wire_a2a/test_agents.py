"""Capabilities that are agents: a function of a message, offered by a program of one's own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.sdk import Provider
from tests.wire_a2a.official import Official, last_state, task_id_of
from tests.wire_a2a.raw import JSONRPC, Problem
from tests.wire_a2a.said import kinds, script, send, text, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiosd.sdk import TaskContext
    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw

provider = Provider("agents", credits=10)


@provider.capability("test.echo", level="public", input_modes=["text/plain"])
async def echo(task: TaskContext, args: dict[str, Any]) -> str:
    """Says it again."""
    assert task.request_message is not None
    return " ".join(part.text for part in task.request_message.parts)


@provider.capability("test.order", level="public")
async def order(task: TaskContext, args: dict[str, Any]) -> dict[str, Any]:
    """Asks until it knows what to bring."""
    assert task.request_message is not None
    what = await task.ask("What may I bring?")
    await task.message(f"One {what['text']}, coming up")
    size = await task.ask("Which size?", options=["small", "large"])
    return {"what": what["text"], "size": size["text"], "first": len(task.request_message.parts)}


@asynccontextmanager
async def attached(stack: Stack, raw: Raw) -> AsyncIterator[None]:
    """The program, attached for as long as the context is open."""
    running = asyncio.create_task(provider.run(f"unix:{stack.socket}", stack.token))
    try:
        async with asyncio.timeout(20):
            while True:
                card = await raw.call(JSONRPC, "GetExtendedAgentCard")
                if "test.echo" in [skill["id"] for skill in card["skills"]]:
                    break
                await asyncio.sleep(0.05)
        yield
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_plain_text_reaches_a_function_and_its_answer_comes_back(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw]
) -> None:
    stack = start_stack(default_capability="test.echo", a2a_check_media_types="true")
    raw = connect(stack)
    async with attached(stack, raw):
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            client = await Official.open(stack, binding)
            answers = await client.say(send(text("hello there"), tenant=""))
            assert last_state(answers) == "TASK_STATE_COMPLETED"
            task = await client.get(task_id_of(answers))
            assert task.artifacts[0].parts[0].text == "hello there"
            await client.close()
            with pytest.raises(Problem) as caught:
                data = user([{"text": "x"}, {"data": {"a": 1}}])
                await raw.call(binding, "SendMessage", send(data, tenant=""))
            assert caught.value.reason == "CONTENT_TYPE_NOT_SUPPORTED"
            assert caught.value.code in (-32005, 400, "INVALID_ARGUMENT")


async def test_a_dialogue_of_several_turns(
    start_stack: Callable[..., Stack], connect: Callable[..., Raw]
) -> None:
    stack = start_stack(a2a_message_dedupe="true")
    raw = connect(stack)
    async with attached(stack, raw):
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            first = text("I am hungry", messageId=f"1-{binding}")
            asked = (await raw.call(binding, "SendMessage", send(first, "test.order")))["task"]
            assert asked["status"]["message"]["parts"][0]["text"] == "What may I bring?"
            # The setting makes a repeated message the same message.
            again = (await raw.call(binding, "SendMessage", send(first, "test.order")))["task"]
            assert again["id"] == asked["id"]
            follow_up = {"taskId": asked["id"], "contextId": asked["contextId"]}
            items = await raw.call(
                binding, "SendStreamingMessage", send(text("tea", messageId="2", **follow_up), "")
            )
            assert kinds(items)[-1] == "input_required"
            last = text("large", messageId="3", **follow_up)
            done = (await raw.call(binding, "SendMessage", send(last, "test.order")))["task"]
            assert done["status"]["state"] == "TASK_STATE_COMPLETED"
            said = [message["parts"][0]["text"] for message in done["history"]]
            assert said == [
                "I am hungry",
                "What may I bring?",
                "tea",
                "One tea, coming up",
                "Which size?",
                "large",
            ]
            result = done["artifacts"][0]["parts"][0]["data"]
            assert result == {"what": "tea", "size": "large", "first": 1}


@pytest.mark.req("R123", "R181", "R184")
async def test_a_person_approves_or_declines_in_a_message(
    shared_stack: Stack, raw: Raw, connect: Callable[..., Raw], binding: str
) -> None:
    person = connect(shared_stack, shared_stack.approver_token())
    for approve, state in ((True, "COMPLETED"), (False, "FAILED")):
        params = send(script(messageId=f"ask-{approve}"), tenant="lab.script.high")
        task = (await raw.call(binding, "SendMessage", params))["task"]
        assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
        record = task["status"]["message"]["metadata"]["aiosInterruption"]
        assert record["kind"] == "human_approval"
        decision = user([{"data": {"approve": approve}}], taskId=task["id"], messageId="d")
        # The program that asked for the task cannot approve it.
        with pytest.raises(Problem) as caught:
            await raw.call(binding, "SendMessage", send(decision, tenant=""))
        assert caught.value.code in (-32603, 403, "PERMISSION_DENIED")
        decided = await person.call(binding, "SendMessage", send(decision, tenant=""))
        assert decided["task"]["status"]["state"] == f"TASK_STATE_{state}"
        if not approve:
            assert decided["task"]["metadata"]["aiosReason"] == "user_declined"
