"""The lab's runtime operations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.capabilities.lab import make_provider

if TYPE_CHECKING:
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon


async def operate(
    daemon: ReferenceDaemon, method: str, params: dict[str, Any], operation_id: str = "op-1"
) -> list[wire.OperationReport]:
    """Run an operation until its last report."""
    daemon.send(
        run_operation=wire.RunOperation(
            operation_id=operation_id,
            method=method,
            params=json.dumps(params),
            target_scope="instance",
            target_id="lab",
        )
    )

    def over() -> bool:
        operation = daemon.operations.get(operation_id)
        if operation is None or not operation.reports:
            return False
        last = operation.reports[-1]
        if last.HasField("committed"):
            return not daemon.projection_problem(last.committed)
        return last.HasField("failed") or last.HasField("canceled")

    await daemon.until(over, method)
    return daemon.operations[operation_id].reports


def states(reports: list[wire.OperationReport]) -> list[Any]:
    return [
        json.loads(report.committed.state or "null")
        for report in reports
        if report.HasField("committed")
    ]


@pytest.mark.req("R163")
async def test_methods_report_the_whole_new_state(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        switched = await operate(daemon, "model.switch", {"model": "lab-2"}, "op-1")
        configured = await operate(daemon, "mcp.configure", {"servers": [{"name": "x"}]}, "op-2")
        cleared = await operate(daemon, "session.clear", {"session": "s"}, "op-3")
        restarted = await operate(daemon, "agent.restart", {}, "op-4")
    assert states(switched) == [{"model": "lab-2", "sessions": [], "mcp_servers": []}]
    expected = {"model": "lab-2", "sessions": [], "mcp_servers": [{"name": "x"}]}
    assert states(configured) == states(cleared) == [expected]
    assert restarted[-1].committed.state == ""


async def test_wrong_parameters_fail_before_any_effect(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    wrong = [
        ("model.switch", {}),
        ("model.switch", {"model": ""}),
        ("session.clear", {"session": 1}),
        ("mcp.configure", {"servers": "x"}),
        ("lab.script", {}),
        ("lab.script", {"steps": [{"no": 1}]}),
        ("lab.script", {"steps": [{}]}),
    ]
    async with attach(make_provider()):
        for number, (method, params) in enumerate(wrong):
            reports = await operate(daemon, method, params, f"op-{number}")
            assert reports[-1].failed.code == "INVALID_INVOCATION"
            assert reports[-1].failed.message.startswith("params: ")


async def test_a_script_commits_patches_and_fails_as_it_says(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(make_provider()):
        committed = await operate(
            daemon, "lab.script", {"steps": [{"sleep_ms": 1}, {"commit": {"sessions": ["a"]}}]}
        )
        failed = await operate(
            daemon, "lab.script", {"steps": [{"fail": {"message": "no"}}]}, "op-2"
        )
    assert states(committed) == [{"model": "lab-1", "sessions": ["a"], "mcp_servers": []}]
    assert failed[-1].failed.message == "no"


@pytest.mark.req("R164")
async def test_a_broken_state_is_corrected(daemon: ReferenceDaemon, attach: Attach) -> None:
    def problem(effect: wire.EffectCommitted) -> str:
        return "" if isinstance(json.loads(effect.state)["model"], str) else "model: no string"

    daemon.projection_problem = problem
    async with attach(make_provider()):
        reports = await operate(daemon, "lab.script", {"steps": [{"commit_invalid": 2}]})
    assert [state["model"] for state in states(reports)] == [1, 2, "lab-1"]
