"""From the offer to the one terminal report."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import content_pb2
from aiosd.sdk import Data, Provider, Raw, ReportRefused, TaskContext, TaskFailed, TaskRejected

if TYPE_CHECKING:
    from aiosd.sdk import Offer
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon


@dataclass
class Greeting:
    name: str
    times: int = 1


async def test_a_capability_gets_typed_arguments_and_its_result_is_reported_once(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("greeter")

    @provider.capability("greet", description="Greets.", level="public")
    async def greet(task: TaskContext, args: Greeting) -> dict[str, Any]:
        await task.progress(50, "half", current_step=1, total_steps=2)
        return {"said": [f"hello {args.name}"] * args.times}

    async with attach(provider):
        attempt = await daemon.begin("greet", '{"name":"ada","times":2}')
        ending = await daemon.ended(attempt)
    assert json.loads(ending.completed.result) == {"said": ["hello ada", "hello ada"]}
    assert attempt.kinds() == ["progress", "completed"]
    declared = daemon.hellos[0].capabilities[0]
    assert json.loads(declared.input_schema)["required"] == ["name"]
    assert declared.description == "Greets."


@pytest.mark.req("I14")
async def test_nothing_runs_before_go(daemon: ReferenceDaemon, attach: Attach) -> None:
    provider = Provider("p")
    ran = asyncio.Event()

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        ran.set()

    async with attach(provider):
        attempt = await daemon.offer("c")
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        assert not ran.is_set()
        daemon.go(attempt)
        await daemon.ended(attempt)
    assert ran.is_set()


async def test_a_withdrawn_offer_never_runs_even_if_go_follows(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    ran = []

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        ran.append(task.task_id)

    async with attach(provider):
        first = await daemon.offer("c")
        daemon.send(offer_withdrawn=wire.OfferWithdrawn(task_id=first.task.task_id, attempt=1))
        daemon.send(go=wire.Go(task_id=first.task.task_id, attempt=1))
        second = await daemon.begin("c")
        await daemon.ended(second)
    assert ran == [second.task.task_id]


async def test_a_screen_declines_an_offer_before_anything_is_accepted(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    async def screen(offer: Offer) -> None:
        if offer.arguments.get("reject"):
            raise TaskRejected("not today")

    @provider.capability("c", screen=screen)
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        pass

    async with attach(provider):
        attempt = await daemon.offer("c", '{"reject":true}')
    assert attempt.rejected is not None
    assert (attempt.rejected.busy, attempt.rejected.reason) == (False, "not today")
    assert not attempt.accepted


async def test_arguments_that_do_not_fit_the_type_are_declined_and_named(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: Greeting) -> None:
        pass

    async with attach(provider):
        attempt = await daemon.offer("c", '{"name":7}')
    assert attempt.rejected is not None
    assert attempt.rejected.reason == "arguments.name: must be string"


async def test_an_offer_of_an_unknown_capability_is_for_somebody_else(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        pass

    async with attach(provider):
        attempt = await daemon.offer("other")
    assert attempt.rejected is not None
    assert attempt.rejected.busy


async def test_a_failure_says_what_the_capability_says(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        raise TaskFailed("no disk", code=-32020, retryable=True, data={"free": 0}, reason="disk")

    async with attach(provider):
        failed = (await daemon.ended(await daemon.begin("c"))).failed
    assert (failed.code, failed.message, failed.reason) == (-32020, "no disk", "disk")
    assert failed.retryable
    assert json.loads(failed.data) == {"free": 0}


@pytest.mark.req("S-17", "I40")
async def test_the_text_of_an_unforeseen_exception_stays_at_home(
    daemon: ReferenceDaemon, attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        raise RuntimeError("password=hunter2")

    async with attach(provider):
        failed = (await daemon.ended(await daemon.begin("c"))).failed
    assert failed.code == -32603
    assert failed.message == "the capability raised RuntimeError"
    assert "hunter2" not in str(failed)
    assert "hunter2" in caplog.text


async def test_rejecting_after_the_start_ends_the_attempt(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        await task.log("looking")
        raise TaskRejected("changed my mind")

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert ending.rejected.reason == "changed my mind"


async def test_a_result_without_a_json_form_fails_the_attempt(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> float:
        return float("nan")

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert ending.failed.message == "the result is not a JSON value"


async def test_a_result_that_no_message_can_carry_fails_the_attempt(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        return "x" * (5 * 1024 * 1024)

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert ending.failed.message == "the result is too large"


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
