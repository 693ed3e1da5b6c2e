"""Message envelopes and judgement, over the provider stream of a real daemon and the lab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.v1 import content_pb2, task_pb2
from aiosd.sdk import Client, NotFound, Refused, connect
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.programs import Programs

SLEEP = {"sleep_ms": 60_000}


def reply(text: str, status: str = "completed", stop_reason: str | None = None) -> dict[str, Any]:
    said = {"text": text, "status": status}
    return {"message": said if stop_reason is None else {**said, "stop_reason": stop_reason}}


async def run(client: Client, *steps: dict[str, Any], **options: Any) -> task_pb2.Task:
    made = await client.create("lab.script", {"steps": list(steps)}, **options)
    return await client.wait(made.task_id, 20_000)


async def said(client: Client, task_id: str) -> list[content_pb2.Message]:
    """The envelopes as the log tells them, oldest first."""
    found = []
    async with client.subscribe(task_id, families=["message"]) as events:
        async for event in events:
            assert event.WhichOneof("payload") == "message_changed", event
            found.append(event.message_changed)
    return found


@pytest.mark.req("R159", "R160", "R161", "Y15")
async def test_replies_stream_are_stored_and_decide_the_outcome(programs: Programs) -> None:
    await programs.daemon()
    await programs.lab()
    async with connect(programs.address) as client:
        streamed = await run(
            client,
            reply("I th", "streaming"),
            reply("I think", "streaming"),
            reply("I think so"),
            message="do you?",
        )
        assert streamed.state == task_pb2.TASK_STATE_COMPLETED
        stored = await client.messages(streamed.task_id)
        assert [(one.role, one.parts[0].text) for one in stored] == [
            (content_pb2.ROLE_USER, "do you?"),
            (content_pb2.ROLE_AGENT, "I think so"),
        ]
        told = await said(client, streamed.task_id)
        assert [one.status for one in told] == [
            content_pb2.MESSAGE_STATUS_STREAMING,
            content_pb2.MESSAGE_STATUS_STREAMING,
            content_pb2.MESSAGE_STATUS_COMPLETED,
        ]
        for step, state, reason in (
            (reply("…", "completed", "max_tokens"), task_pb2.TASK_STATE_COMPLETED, "max_tokens"),
            (reply("…", "failed", "error"), task_pb2.TASK_STATE_FAILED, "error"),
            (reply("…", "failed", "timeout"), task_pb2.TASK_STATE_FAILED, "timeout"),
            (reply("…", "cancelled", "user_stop"), task_pb2.TASK_STATE_CANCELED, "user_stop"),
            (reply("…", "refused", "content_filter"), task_pb2.TASK_STATE_REJECTED, "rejected"),
        ):
            task = await run(client, step)
            assert (task.state, task.state_reason) == (state, reason)
            assert task.outcome == task_pb2.OUTCOME_CERTAIN
        open_reply = await run(client, reply("…", "streaming"))
        assert open_reply.state == task_pb2.TASK_STATE_COMPLETED
        explicit = await run(client, reply("…", "failed", "error"), {"complete": {"result": 1}})
        assert explicit.state == task_pb2.TASK_STATE_COMPLETED


@pytest.mark.req("R159", "R145", "R199", "I16")
async def test_what_a_crash_left_in_doubt_is_resolved_with_evidence(programs: Programs) -> None:
    await programs.daemon()
    lab = await programs.lab()
    async with connect(programs.address) as client:
        made = await client.create(
            "lab.script", {"steps": [reply("half a", "streaming"), SLEEP]}, metadata={"n": 1}
        )

        async def streams() -> bool:
            return bool(await client.messages(made.task_id))

        await eventually(streams)
        await lab.kill()
        lost = await client.wait(made.task_id, 20_000)
        assert (lost.failure.reason, lost.outcome) == ("agent_lost", task_pb2.OUTCOME_UNCERTAIN)
        (message,) = await client.messages(made.task_id)
        assert message.status == content_pb2.MESSAGE_STATUS_FAILED
        assert (message.stop_reason, message.parts[0].text) == ("agent_lost", "half a")

        with pytest.raises(NotFound):
            await client.resolve("task-x", "completed", "seen")
        answer = await client.resolve(made.task_id, "retry", "no trace of it on the disk")
        closed, again = answer.task, answer.retried_as
        assert closed.state == task_pb2.TASK_STATE_FAILED
        assert closed.outcome == task_pb2.OUTCOME_CERTAIN
        assert closed.resolution.outcome == "retry"
        assert closed.resolution.evidence == "no trace of it on the disk"
        assert (again.retried_from, again.state) == (made.task_id, task_pb2.TASK_STATE_SUBMITTED)
        assert json.loads(again.metadata) == {"n": 1}
        with pytest.raises(Refused) as refused:
            await client.resolve(made.task_id, "completed", "seen after all")
        assert refused.value.reason == "NOT_RESOLVABLE"
        async with client.subscribe(made.task_id) as events:
            last = [event async for event in events][-1]
        assert last.WhichOneof("payload") == "resolved"

        await programs.lab()
        await client.cancel(again.task_id)
        done = await run(client)
        judged = await client.accept(done.task_id, False, "not what I meant")
        assert judged.state == task_pb2.TASK_STATE_COMPLETED
        assert (judged.acceptance.accepted, judged.acceptance.reason) == (False, "not what I meant")
        with pytest.raises(Refused):
            await client.accept(made.task_id)
