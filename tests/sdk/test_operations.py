"""Runtime operations, from the command to the projected effect."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import OperationContext, OperationFailed, ProjectionBlocked, Provider, TaskContext
from aiosd.sdk.link import Heard, SessionLost
from aiosd.sdk.operations import Instance
from aiosd.sdk.outbox import Outbox
from aiosd.sdk.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon


def lab(operate: Callable[[OperationContext, dict[str, Any]], Any]) -> Provider:
    provider = Provider("lab")
    provider.instance("lab", "Lab", {"model": "one"})
    provider.operation("model.switch")(operate)

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> None:
        pass

    return provider


def command(daemon: ReferenceDaemon, params: str = "{}", operation_id: str = "op") -> None:
    daemon.send(
        run_operation=wire.RunOperation(
            operation_id=operation_id, method="model.switch", params=params, target_scope="instance"
        )
    )


async def reports(daemon: ReferenceDaemon, count: int) -> list[wire.OperationReport]:
    await daemon.until(lambda: "op" in daemon.operations)
    await daemon.until(lambda: len(daemon.operations["op"].reports) >= count)
    return daemon.operations["op"].reports


async def test_an_effect_is_reported_with_the_new_state_and_kept_for_the_next_hello(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        await op.progress("loading", 1, 2)
        await op.commit(op.state | {"model": params["model"]}, result={"was": op.state["model"]})

    async with attach(lab(switch)):
        command(daemon, '{"model":"two"}')
        progressed, committed = await reports(daemon, 2)
        await daemon.cut()
        await daemon.until(lambda: len(daemon.hellos) == 2)
    assert (progressed.progressed.phase, progressed.progressed.total) == ("loading", 2)
    assert json.loads(committed.committed.state) == {"model": "two"}
    assert json.loads(committed.committed.result) == {"was": "one"}
    assert json.loads(daemon.hellos[1].instance.state) == {"model": "two"}
    assert not daemon.hellos[1].operations


async def test_a_blocked_state_is_corrected_by_a_second_commit(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    daemon.projection_problem = lambda effect: "model: must be text" if "7" in effect.state else ""

    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        with pytest.raises(ProjectionBlocked, match="must be text"):
            await op.commit({"model": 7})
        assert op.state == {"model": "one"}
        await op.commit({"model": "two"})

    async with attach(lab(switch)):
        command(daemon)
        first, second = await reports(daemon, 2)
    assert json.loads(first.committed.state) == {"model": 7}
    assert json.loads(second.committed.state) == {"model": "two"}


async def test_returning_without_a_commit_is_an_effect_that_changes_no_state(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async def switch(op: OperationContext, params: dict[str, Any]) -> str:
        return "cleared"

    async with attach(lab(switch)):
        command(daemon)
        (only,) = await reports(daemon, 1)
    assert (only.committed.state, only.committed.result) == ("", '"cleared"')


async def test_a_failure_carries_its_code_and_an_unforeseen_one_only_its_class(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        if params:
            raise OperationFailed("no such model", code="MODEL_UNKNOWN")
        raise RuntimeError("token=abc")

    async with attach(lab(switch)):
        command(daemon, '{"model":"x"}')
        (known,) = await reports(daemon, 1)
        command(daemon, operation_id="op-2")
        await daemon.until(lambda: "op-2" in daemon.operations)
    assert (known.failed.code, known.failed.message) == ("MODEL_UNKNOWN", "no such model")
    unforeseen = daemon.operations["op-2"].reports[0]
    assert unforeseen.failed.message == "the operation raised RuntimeError"


async def test_a_cancel_that_comes_with_the_command_keeps_it_from_beginning() -> None:
    begun: list[str] = []

    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        begun.append(op.operation_id)

    outbox = Outbox()
    session = Session(outbox, {}, {"m": switch}, Instance("lab", "Lab", {}))
    stream = outbox.begin_stream(wire.Hello())
    outbox.settle(wire.Welcome())
    both = (
        wire.DaemonMessage(run_operation=wire.RunOperation(operation_id="op", method="m")),
        wire.DaemonMessage(cancel_operation=wire.CancelOperation(operation_id="op")),
    )
    session.hear(Heard(stream, both))
    said = await asyncio.to_thread(outbox.take, stream, time.monotonic() + 10, threading.Event())
    assert said is not None
    assert [one.operation_report.WhichOneof("report") for one in said] == ["canceled"]
    session.hear(Heard(stream, (wire.DaemonMessage(operation_ack=ack_of(said[0])),)))
    await asyncio.wait_for(session.idle(), 10)
    assert not begun


def ack_of(said: wire.ProviderMessage) -> wire.OperationAck:
    report = said.operation_report
    return wire.OperationAck(operation_id=report.operation_id, up_to=report.number)


async def test_a_lost_session_keeps_a_command_from_beginning() -> None:
    begun: list[str] = []

    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        begun.append(op.operation_id)

    session = Session(Outbox(), {}, {"m": switch}, Instance("lab", "Lab", {}))
    command = wire.RunOperation(operation_id="op", method="m")
    session.hear(Heard(1, (wire.DaemonMessage(run_operation=command),)))
    session.hear(SessionLost())
    await asyncio.wait_for(session.idle(), 10)
    assert not begun


async def test_a_cancel_before_the_effect_stops_it_and_after_the_effect_changes_nothing(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    finish = asyncio.Event()

    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        if params:
            await op.commit({"model": "two"})
        await op.progress("waiting")
        await finish.wait()

    async with attach(lab(switch)):
        command(daemon)
        await reports(daemon, 1)
        daemon.send(cancel_operation=wire.CancelOperation(operation_id="op"))
        canceled = (await reports(daemon, 2))[1]
        command(daemon, '{"model":"two"}', operation_id="op-2")
        await daemon.until(lambda: len(getattr(daemon.operations.get("op-2"), "reports", ())) == 2)
        daemon.send(cancel_operation=wire.CancelOperation(operation_id="op-2"))
        finish.set()
    assert canceled.HasField("canceled")
    assert [one.WhichOneof("report") for one in daemon.operations["op-2"].reports] == [
        "committed",
        "progressed",
    ]


async def test_an_unacknowledged_effect_is_sent_again_after_a_restart(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async def switch(op: OperationContext, params: dict[str, Any]) -> None:
        await op.commit({"model": "two"})

    async with attach(lab(switch)):
        daemon.acknowledges = False
        command(daemon)
        await reports(daemon, 1)
        await daemon.stop()
        daemon.operations.clear()  # it never reached the disk
        daemon.acknowledges = True
        await daemon.start()
        (again,) = await reports(daemon, 1)
    assert json.loads(again.committed.state) == {"model": "two"}
    assert [one.operation_id for one in daemon.hellos[1].operations] == ["op"]
