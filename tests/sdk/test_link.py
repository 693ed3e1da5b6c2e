"""Streams break, daemons restart, loops hang: nothing is lost, doubled or reordered."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from aiosd.sdk import AiosdError, Provider, ReportRefused, TaskContext, testing
from tests.sdk.reference_daemon import ReferenceDaemon, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sdk.conftest import Attach


def counter(name: str = "p") -> tuple[Provider, asyncio.Event]:
    """A provider whose capability `c` logs 1, waits for the event, logs 2 and 3, returns."""
    provider, go_on = Provider(name), asyncio.Event()

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        await task.log("1")
        await go_on.wait()
        await task.log("2")
        await task.log("3")
        return "done"

    return provider, go_on


def lines(attempt: Any) -> list[str]:
    return [one.log.message for one in attempt.stored if one.HasField("log")]


@pytest.mark.req("I19")
async def test_a_restarted_daemon_gets_the_running_attempt_and_every_report_once(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, go_on = counter()
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        await daemon.stop()
        go_on.set()
        await daemon.start()
        await daemon.ended(attempt)
    held = daemon.hellos[1].attempts
    assert [(one.task_id, one.attempt, one.started) for one in held] == [(*attempt.key, True)]
    assert daemon.hellos[0].session_id == daemon.hellos[1].session_id
    assert lines(attempt) == ["1", "2", "3"]


@pytest.mark.req("I19", "I15")
async def test_what_was_stored_but_not_acknowledged_is_sent_again_and_stored_once(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, go_on = counter()
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        daemon.acknowledges = False
        go_on.set()
        await daemon.ended(attempt)
        # The daemon stored the end, the provider does not know: it still holds the attempt.
        daemon.acknowledges = True
        await daemon.cut()
        await daemon.until(lambda: len(daemon.hellos) == 2)
        await daemon.ended(await daemon.begin("c"))
    assert [one.task_id for one in daemon.hellos[1].attempts] == [attempt.task.task_id]
    assert lines(attempt) == ["1", "2", "3"]
    assert attempt.kinds().count("completed") == 1


async def test_many_cuts_lose_and_double_nothing(daemon: ReferenceDaemon, attach: Attach) -> None:
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        for number in range(400):
            await task.log(str(number))
            if number % 50 == 0:
                await task.save(number)

    async with attach(provider):
        attempt = await daemon.begin("c")
        for at in (30, 120, 200, 310):
            await daemon.until(lambda at=at: len(attempt.stored) >= at)  # type: ignore[misc]
            if not attempt.over:
                await daemon.cut()
        await daemon.ended(attempt)
    assert lines(attempt) == [str(number) for number in range(400)]
    assert len(daemon.hellos) > 1


async def test_a_refused_report_leaves_no_gap_after_a_cut(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, go_on = counter()
    daemon.refuse = lambda report: "REPORT_INVALID" if report.log.message == "1" else ""
    async with attach(provider):
        attempt = await daemon.begin("c")
        await daemon.until(lambda: attempt.refused)
        await daemon.cut()
        # A daemon that forgot what it refused expects the number again.
        attempt.answered = 0
        await daemon.until(lambda: len(daemon.hellos) == 2 and len(attempt.refused) == 2)
        go_on.set()
        await daemon.ended(attempt)
    assert lines(attempt) == ["2", "3"]


@pytest.mark.req("I13", "I16")
async def test_an_attempt_that_the_daemon_does_not_continue_is_stopped_in_silence(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    stopped = asyncio.Event()

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with attach(provider):
        attempt = await daemon.begin("c")
        daemon.continues = False
        await daemon.cut()
        async with asyncio.timeout(5):
            await stopped.wait()
        await daemon.until(lambda: len(daemon.hellos) == 2)
    assert attempt.received == []


@pytest.mark.req("I15")
async def test_a_lost_session_stops_all_attempts_and_begins_with_a_new_id(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    refusals = []
    started = asyncio.Event()

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await task.save("too late")
            except ReportRefused as refusal:
                refusals.append(refusal.reason)
            raise

    async with attach(provider):
        attempt = await daemon.begin("c")
        await started.wait()
        await daemon.cut("SESSION_LOST", grpc.StatusCode.FAILED_PRECONDITION)
        await daemon.until(lambda: len(daemon.hellos) == 2)
        first, second = daemon.hellos
        assert first.session_id != second.session_id
        assert not second.attempts
        fresh = await daemon.begin("c", task_id=attempt.task.task_id, number=2)
        assert fresh.accepted
    assert refusals[0] == "ATTEMPT_FENCED"
    assert attempt.received == []


@pytest.mark.req("I13")
async def test_an_attempt_that_is_lost_together_with_its_go_never_runs(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    ran = []

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        ran.append(task.attempt)

    async with attach(provider):
        first = await daemon.offer("c", task_id="t")
        await daemon.cut("SESSION_LOST", grpc.StatusCode.FAILED_PRECONDITION)
        daemon.go(first)
        await daemon.until(lambda: len(daemon.hellos) == 2)
        second = await daemon.begin("c", task_id="t", number=2)
        await daemon.ended(second)
    assert ran == [2]


@pytest.mark.req("I18")
async def test_heartbeats_go_on_while_the_event_loop_is_busy(daemon: ReferenceDaemon) -> None:
    daemon.heartbeat_ms = 80
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        await task.save("about to block")
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            pass

    async def until_drained() -> None:
        run_task = asyncio.create_task(provider.run(daemon.address))
        await provider.attached()
        await asyncio.to_thread(finished.wait)
        await provider.drain()
        await run_task

    # The daemon must not share the loop that hangs.
    finished = threading.Event()
    thread = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(until_drained())))
    await daemon.until(lambda: daemon.hellos)
    attempt = await daemon.begin("c")
    await daemon.stored(attempt, "checkpoint")
    before = daemon.heartbeats
    await daemon.until(lambda: daemon.heartbeats >= before + 5)
    assert not attempt.over
    await daemon.ended(attempt)
    finished.set()
    await thread


async def test_a_daemon_that_answers_no_heartbeat_for_a_lease_is_left_for_a_new_stream(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    daemon.heartbeat_ms, daemon.lease_ms = 50, 200
    daemon.answers_heartbeats = False
    provider, go_on = counter()
    async with attach(provider):
        await daemon.until(lambda: len(daemon.hellos) == 2)
        daemon.answers_heartbeats = True
        go_on.set()
        await daemon.ended(await daemon.begin("c"))


async def test_a_provider_waits_for_a_daemon_that_is_not_there_yet(socket: Path) -> None:
    daemon = ReferenceDaemon(socket)
    provider, go_on = counter()
    go_on.set()
    run = asyncio.create_task(provider.run(daemon.address))
    async with running(daemon):
        await provider.attached()
        await daemon.ended(await daemon.begin("c"))
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await daemon.until(lambda: daemon.detached)
    assert daemon.detached == ["stopped"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "HELLO_INVALID"),
        (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"),
    ],
)
async def test_a_refusal_for_good_ends_the_run_with_its_reason(
    daemon: ReferenceDaemon, code: grpc.StatusCode, reason: str
) -> None:
    daemon.refuse_attach = (code, reason)
    provider, _ = counter()
    with pytest.raises(AiosdError) as caught:
        await provider.run(daemon.address)
    assert (caught.value.code, caught.value.reason) == (code, reason)


@pytest.mark.req("I45")
async def test_a_drain_finishes_what_runs_takes_nothing_new_and_detaches(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, go_on = counter()
    async with attach(provider) as run:
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        drain = asyncio.create_task(provider.drain())
        await daemon.until(lambda: daemon.credits == 0)
        late = await daemon.offer("c")  # it crossed with the credits
        assert late.rejected is not None and late.rejected.busy
        go_on.set()
        await drain
        await run
        await daemon.until(lambda: daemon.detached)
    assert daemon.detached == ["drained"]
    assert attempt.over


async def test_a_drain_with_a_grace_stops_what_takes_longer(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, _ = counter()
    async with attach(provider) as run:
        attempt = await daemon.begin("c")
        await daemon.stored(attempt, "log")
        await provider.drain(grace_ms=20)
        await run
        await daemon.until(lambda: daemon.detached)
    assert not attempt.over


async def test_after_the_daemons_drain_offers_are_declined_and_the_run_goes_on(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, go_on = counter()
    async with attach(provider):
        attempt = await daemon.begin("c")
        daemon.send(drain={})
        late = await daemon.offer("c")
        assert late.rejected is not None and late.rejected.busy
        await daemon.stop()
        await daemon.start()
        go_on.set()
        await daemon.ended(attempt)
        assert (await daemon.offer("c")).accepted


@pytest.mark.req("I18")
async def test_a_frozen_provider_sends_nothing_not_even_heartbeats(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider = Provider("p")
    marks: list[float] = []

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        testing.freeze(provider, 600)
        await task.log("said while frozen")

    async with attach(provider):
        marks.append(time.monotonic())
        attempt = await daemon.begin("c")
        await daemon.until(lambda: attempt.accepted)
        beats = daemon.heartbeats
        await daemon.ended(attempt)
        marks.append(time.monotonic())
    assert marks[1] - marks[0] >= 0.55
    assert daemon.heartbeats - beats <= 1


async def test_the_instance_is_introduced_with_its_state_and_methods(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    provider, _ = counter()
    provider.instance("lab", "Lab", {"model": "one"}, {"type": "object"})

    @provider.operation("model.switch")
    async def switch(op: Any, params: dict[str, Any]) -> None:
        await op.commit({"model": params["model"]})

    async with attach(provider):
        instance = daemon.hellos[0].instance
    assert json.loads(instance.state) == {"model": "one"}
    assert list(instance.methods) == ["model.switch"]
    assert json.loads(instance.state_schema) == {"type": "object"}
