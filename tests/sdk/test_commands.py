"""Pause, resume and cancel, as the capability feels them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import Provider, TaskContext, testing
from tests.sdk.reference_daemon import name

if TYPE_CHECKING:
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon


def stepper() -> tuple[Provider, list[int], asyncio.Event]:
    """A provider whose `c` counts, checkpoint by checkpoint, until the event is set."""
    provider, done = Provider("p"), asyncio.Event()
    counted: list[int] = []

    @provider.capability("c", pausable=True)
    async def run(task: TaskContext, args: dict[str, Any]) -> int:
        await task.log("started")
        while not done.is_set():
            await task.checkpoint()
            counted.append(len(counted))
        return len(counted)

    return provider, counted, done


# --- pause and resume -------------------------------------------------------------------------


@pytest.mark.req("I24")
async def test_a_paused_task_stands_still_until_it_is_resumed(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, counted, done = stepper()
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        stood = len(counted)
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        assert len(counted) == stood
        daemon.send(resume=wire.Resume(**name(attempt)))
        await daemon.stored(attempt, "resumed")
        done.set()
        await daemon.ended(attempt)
    assert attempt.kinds() == ["log", "paused", "resumed", "completed"]


@pytest.mark.req("I24")
async def test_a_paused_attempt_stays_paused_through_a_restart_of_the_daemon(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, counted, done = stepper()
    async with attach(provider):
        attempt = await daemon.begin("c")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        stood = len(counted)
        await daemon.stop()
        await daemon.start()
        await daemon.until(lambda: len(daemon.hellos) == 2)
        assert daemon.hellos[1].attempts[0].paused
        daemon.send(pause=wire.Pause(**name(attempt)))  # said again: no second report
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        assert len(counted) == stood
        daemon.send(resume=wire.Resume(**name(attempt)))
        await daemon.stored(attempt, "resumed")
        done.set()
        await daemon.ended(attempt)
    assert attempt.kinds().count("paused") == 1


async def test_resume_and_pause_in_one_breath_are_obeyed_in_order(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, _, done = stepper()
    async with attach(provider):
        attempt = await daemon.begin("c")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        daemon.send(resume=wire.Resume(**name(attempt)))
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.until(lambda: attempt.kinds().count("paused") == 2)
        daemon.send(resume=wire.Resume(**name(attempt)))
        done.set()
        await daemon.ended(attempt)
    assert attempt.kinds()[-5:-1] == ["paused", "resumed", "paused", "resumed"]


async def test_a_refused_pause_report_lets_the_attempt_go_on(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, _, done = stepper()
    daemon.refuse = lambda report: "TASK_STATE_INVALID" if report.HasField("paused") else ""
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.until(lambda: attempt.refused)
        done.set()
        await daemon.ended(attempt)
    assert attempt.stored[-1].HasField("completed")


async def test_an_executor_with_callbacks_is_paused_when_they_have_run(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, calls, finish = Provider("p"), [], asyncio.Event()

    @provider.capability("c", pausable=True)
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        async def freeze() -> None:
            calls.append("pause")

        task.on_pause(freeze)
        task.on_resume(lambda: calls.append("resume"))
        await task.log("started")
        await finish.wait()  # never at a checkpoint

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        assert calls == ["pause"]
        daemon.send(resume=wire.Resume(**name(attempt)))
        await daemon.stored(attempt, "resumed")
        assert calls == ["pause", "resume"]
        finish.set()
        await daemon.ended(attempt)


async def test_a_callback_that_fails_claims_no_pause(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, finish = Provider("p"), asyncio.Event()

    @provider.capability("c", pausable=True)
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        task.on_pause(lambda: 1 / 0)
        await task.log("started")
        await finish.wait()
        await task.checkpoint()

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.send(pause=wire.Pause(**name(attempt)))
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats)
        finish.set()
        await daemon.ended(attempt)
    assert "paused" not in attempt.kinds()


async def test_sleeping_stops_at_a_pause_and_goes_on_after_it(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c", pausable=True)
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        await task.log("started")
        await task.sleep(150)

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats + 1)  # longer than the sleep
        assert not attempt.over
        daemon.send(resume=wire.Resume(**name(attempt)))
        await daemon.ended(attempt)


# --- cancel -----------------------------------------------------------------------------------


@pytest.mark.req("I21", "I23")
async def test_cancel_reaches_a_capability_that_only_reaches_checkpoints(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, _, _ = stepper()
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt)
        ending = await daemon.ended(attempt)
    assert ending.HasField("canceled")


@pytest.mark.req("I21")
async def test_cancel_reaches_a_paused_capability(daemon: ReferenceDaemon, attach: Attach) -> None:
    provider, _, _ = stepper()
    async with attach(provider):
        attempt = await daemon.begin("c")
        daemon.send(pause=wire.Pause(**name(attempt)))
        await daemon.stored(attempt, "paused")
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")


async def test_cancel_together_with_go_starts_nothing(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, ran = Provider("p"), []

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        ran.append(task.task_id)

    async with attach(provider):
        attempt = await daemon.offer("c")
        daemon.cancel(attempt)
        daemon.go(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")
    assert ran == []


@pytest.mark.req("I16")
async def test_a_capability_that_does_not_stop_is_abandoned_and_called_canceled_when_it_has(
    daemon: ReferenceDaemon, attach: Attach, caplog: pytest.LogCaptureFixture
) -> None:
    provider, finish = Provider("p"), asyncio.Event()

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        await task.log("started")
        while not finish.is_set():
            try:
                await finish.wait()
            except asyncio.CancelledError:
                await task.log("no")
        raise asyncio.CancelledError

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt, grace_ms=20)
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats > beats + 1)
        assert not attempt.over
        assert "capability.abandoned" in caplog.text
        finish.set()
        assert (await daemon.ended(attempt)).HasField("canceled")


async def test_a_result_that_was_ready_in_spite_of_cancel_is_reported_as_evidence(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        testing.ignore_cancel(task)
        await task.log("started")
        return await testing.cancel_arrived(task)

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt, reason="timeout")
        ending = await daemon.ended(attempt)
    assert json.loads(ending.completed.result) == "timeout"


async def test_an_error_while_cleaning_up_is_still_a_cancel(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        await task.log("started")
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("cleanup")

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")


@pytest.mark.req("I09")
async def test_a_second_completion_is_sent_only_by_the_testing_seam(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        await testing.complete_raw(task, "first")
        return "second"

    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.until(lambda: len(attempt.received) == 2)
    assert [json.loads(one.completed.result) for one in attempt.received] == ["first", "second"]
    assert attempt.kinds() == ["completed"]
