"""`aiosctl operations`, `instances`, `resolve` and `accept` against a real daemon and the lab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.ctl.exit_code import ExitCode
from tests.support.operation_consistency import Observed, check_log, seen_plain

if TYPE_CHECKING:
    from tests.ctl.conftest import Aiosctl

pytestmark = pytest.mark.e2e
OBSERVED = Observed()


def check(*snapshots: dict[str, Any]) -> None:
    """What is printed of operations fits, and un-says nothing that was printed before (R169)."""
    for one in snapshots:
        OBSERVED.take(one["operation_id"], seen_plain(one))


def script(*steps: object) -> str:
    return f"steps:={json.dumps(steps)}"


@pytest.mark.req("R163", "R168")
def test_create_waits_for_the_end_of_the_operation(aiosctl: Aiosctl) -> None:
    ran = aiosctl("operations", "create", "lab", "model.switch", "model=m-7", "-o", "json")
    assert (ran.code, ran.json["status"], ran.json["terminal"]) == (0, "succeeded", True)
    check(ran.json)
    shown = aiosctl("instances", "lab").json
    assert shown["state"]["model"] == "m-7"
    assert shown["revision"] == ran.json["projection_revision"]
    assert "lab" in aiosctl("instances").out


def test_the_exit_code_says_how_it_ended(aiosctl: Aiosctl) -> None:
    failing = script({"fail": {"message": "no luck"}})
    ran = aiosctl("operations", "create", "lab", "lab.script", failing)
    assert ran.code == ExitCode.FAILED
    assert "RUNTIME_EXECUTION_FAILED: no luck" in ran.out
    late = script({"sleep_ms": 60_000})
    ran = aiosctl("operations", "create", "lab", "lab.script", late, "--deadline", "200ms")
    assert ran.code == ExitCode.TIMEOUT
    check(*aiosctl("operations", "list", "-o", "json").json)


def test_an_operation_is_watched_listed_and_cancelled(aiosctl: Aiosctl) -> None:
    sleeping = script({"sleep_ms": 60_000})
    made = aiosctl("operations", "create", "lab", "lab.script", sleeping, "-d", "-o", "json").json
    operation_id = made["operation_id"]
    listed = aiosctl("operations", "list", "--active", "-o", "json").json
    assert [one["operation_id"] for one in listed] == [operation_id]
    check(made, *listed)
    assert aiosctl("operations", "cancel", operation_id, "--reason", "enough").code == 0
    watched = aiosctl("operations", "watch", operation_id, "-o", "jsonl")
    assert watched.code == ExitCode.CANCELED
    assert watched.lines[-1]["type"] == "runtime_rpc_response"
    log = [(int(one["sequence"]), one["type"], one["snapshot"]) for one in watched.lines]
    check(*(snapshot for _, _, snapshot in log))
    check_log([(number, kind, seen_plain(one)) for number, kind, one in log], complete=True)
    again = aiosctl("operations", "cancel", operation_id)
    assert again.code == ExitCode.FAILED
    assert "OPERATION_NOT_CANCELLABLE" in again.err
    assert aiosctl("operations", "close", operation_id).code == ExitCode.FAILED


def test_what_cannot_be_asked_is_refused_by_name(aiosctl: Aiosctl) -> None:
    unknown = aiosctl("operations", "create", "nobody", "x")
    assert "INSTANCE_NOT_FOUND" in unknown.err
    method = aiosctl("operations", "create", "lab", "fly")
    assert (method.code, "METHOD_NOT_SUPPORTED" in method.err) == (ExitCode.USAGE, True)
    assert aiosctl("operations", "create", "lab", "x", "--scope", "moon").code == ExitCode.USAGE


@pytest.mark.req("R199")
def test_a_result_is_accepted_or_declined(aiosctl: Aiosctl) -> None:
    task = aiosctl("run", "lab.script", "-o", "json").json
    ran = aiosctl("accept", task["task_id"], "--decline", "--reason", "too short", "-o", "json")
    assert ran.json["state"] == "completed"
    assert ran.json["acceptance"]["reason"] == "too short"


def test_only_uncertain_failures_can_be_resolved(aiosctl: Aiosctl) -> None:
    task = aiosctl("run", "lab.script", "-o", "json").json
    ran = aiosctl("resolve", task["task_id"], "completed", "--evidence", "I saw it")
    assert (ran.code, "NOT_RESOLVABLE" in ran.err) == (ExitCode.FAILED, True)
    assert aiosctl("resolve", task["task_id"], "maybe", "--evidence", "x").code == ExitCode.USAGE
