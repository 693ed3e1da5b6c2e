"""From the offer to the one terminal report."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import Provider, TaskContext, TaskFailed, TaskRejected

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


async def test_an_offer_that_comes_again_while_the_first_is_being_screened_is_accepted_once(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, screened = Provider("p"), asyncio.Event()

    async def screen(offer: Offer) -> None:
        await screened.wait()

    @provider.capability("c", screen=screen)
    async def run(task: TaskContext, args: dict[str, Any]) -> int:
        return task.attempt

    async with attach(provider):
        first = asyncio.create_task(daemon.offer("c", task_id="t"))
        await asyncio.sleep(0)
        daemon.send(offer_withdrawn=wire.OfferWithdrawn(task_id="t", attempt=1))
        second = asyncio.create_task(daemon.offer("c", task_id="t"))
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        screened.set()
        attempt = await second
        daemon.go(attempt)
        await daemon.ended(attempt)
        first.cancel()
    assert attempt.accepted
    assert daemon.violations == []


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
        return "x" * (1024 * 1024)

    async with attach(provider):
        ending = await daemon.ended(await daemon.begin("c"))
    assert ending.failed.message == "the result is too large; make it an artifact"


@pytest.mark.parametrize(
    "end",
    [
        TaskFailed("m", data={"x": object()}),
        TaskFailed("m", code=2**40),
        TaskFailed("m" * 2_000_000),
        TaskRejected(None),
        TaskFailed("\ud800"),
    ],
)
async def test_an_end_that_cannot_be_said_is_still_an_end(
    daemon: ReferenceDaemon, attach: Attach, end: Exception
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        raise end

    async with attach(provider):
        assert (await daemon.ended(await daemon.begin("c"))).WhichOneof("report") in (
            "failed",
            "rejected",
        )
