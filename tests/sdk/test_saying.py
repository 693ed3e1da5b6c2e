"""What a running capability says: artifacts, messages, checkpoints, progress, log lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import content_pb2
from aiosd.sdk import Data, Provider, Raw, ReportRefused, TaskContext

if TYPE_CHECKING:
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon


async def test_an_artifact_larger_than_a_chunk_arrives_in_order_and_sealed_once(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    block = b"\x01" * 1_500_000

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        return await task.artifact(
            "big.bin", Raw(block), Raw(block), Raw(b"end"), mime_type="application/octet-stream"
        )

    async with attach(provider):
        attempt = await daemon.begin("c")
        ending = await daemon.ended(attempt)
    chunks = [one.artifact_chunk for one in attempt.stored if one.HasField("artifact_chunk")]
    assert [one.position for one in chunks] == [0, 1]
    assert [one.append for one in chunks] == [False, True]
    assert [one.last_chunk for one in chunks] == [False, True]
    assert chunks[0].name == "big.bin"
    assert json.loads(ending.completed.result) == chunks[0].artifact_id


async def test_an_open_artifact_is_sealed_when_its_block_ends(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        async with task.open_artifact("log", type="report") as artifact:
            await artifact.write("one")
            await artifact.write(Data({"two": 2}))

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.ended(attempt)
    chunks = [one.artifact_chunk for one in attempt.stored if one.HasField("artifact_chunk")]
    assert [len(one.parts) for one in chunks] == [1, 1, 0]
    assert [one.last_chunk for one in chunks] == [False, False, True]


async def test_a_later_attempt_names_its_artifacts_like_the_earlier_one(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        return await task.artifact("report", "text")

    async with attach(provider):
        first = await daemon.ended(await daemon.begin("c", task_id="t", number=1))
        second = await daemon.ended(await daemon.begin("c", task_id="t", number=2))
        other = await daemon.ended(await daemon.begin("c", task_id="u", number=1))
    assert first.completed.result == second.completed.result != other.completed.result


@pytest.mark.req("I37")
async def test_a_refused_chunk_is_raised_where_it_was_sent(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    daemon.refuse = lambda report: "CHUNK_GAP" if report.HasField("artifact_chunk") else ""

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        try:
            await task.chunk(artifact_id="a", append=True, last=False, position=5, parts=["x"])
        except ReportRefused as refusal:
            return refusal.reason
        return "stored"

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert json.loads(ending.completed.result) == "CHUNK_GAP"


async def test_a_refused_completion_ends_the_attempt_without_a_second_report(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    daemon.refuse = lambda report: "ARTIFACT_INCOMPLETE" if report.HasField("completed") else ""

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        await task.log("hi")

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.until(lambda: attempt.refused)
        other = await daemon.offer("c")  # the provider is alive and has let go
        await daemon.cut()
        await daemon.until(lambda: len(daemon.hellos) == 2)
    assert [report.WhichOneof("report") for report in attempt.received] == ["log", "completed"]
    assert [held.task_id for held in daemon.hellos[1].attempts] == [other.task.task_id]


async def test_messages_and_the_ways_to_complete_by_them(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("direct")
    async def direct(task: TaskContext, args: dict[str, Any]) -> None:
        await task.direct_message("42")

    @provider.capability("streamed")
    async def streamed(task: TaskContext, args: dict[str, Any]) -> None:
        reply = await task.message("thinking", status="streaming")
        await task.message("done", message_id=reply, stop_reason="max_tokens")
        task.complete_by_message()

    async with attach(provider):
        first = await daemon.begin("direct")
        second = await daemon.begin("streamed")
        assert (await daemon.ended(first)).completed.direct_message
        assert (await daemon.ended(second)).completed.by_message
    assert first.last("message").parts[0].text == "42"
    open_one, closed = (one.message for one in second.stored[:2])
    assert open_one.message_id == closed.message_id
    assert open_one.stop_reason == ""
    assert (open_one.status, closed.status) == (
        content_pb2.MESSAGE_STATUS_STREAMING,
        content_pb2.MESSAGE_STATUS_COMPLETED,
    )
    assert closed.stop_reason == "max_tokens"


async def test_a_checkpoint_reaches_the_next_attempt(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> Any:
        await task.save({"page": task.attempt})
        return task.checkpoint_state

    async with attach(provider):
        first = await daemon.begin("c")
        assert (await daemon.ended(first)).completed.result == "null"
        state = first.last("checkpoint").state
        second = await daemon.begin("c", task_id=first.task.task_id, number=2, checkpoint=state)
        assert json.loads((await daemon.ended(second)).completed.result) == {"page": 1}


async def test_progress_is_checked_where_it_is_made(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        try:
            await task.progress(101)
        except ValueError as problem:
            return str(problem)
        return ""

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert json.loads(ending.completed.result) == "percent: must be 0 to 100"


async def test_a_thousand_reports_travel_in_few_messages_and_the_next_one_waits(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    daemon.acknowledges = False
    said = []

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        for number in range(1500):
            await task.log(str(number))
            said.append(number)

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.until(lambda: len(attempt.stored) == 1000)
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        assert len(said) == 1000
        assert max(daemon.batches) > 10
        daemon.acknowledges = True
        daemon.send(ack=wire.Ack(task_id=attempt.task.task_id, attempt=1, up_to=1000))
        await daemon.ended(attempt)
    assert [one.log.message for one in attempt.stored[:-1]] == [str(n) for n in range(1500)]
