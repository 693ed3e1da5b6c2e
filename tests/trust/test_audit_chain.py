"""The audit as an operator sees it: what it holds, and that tampering with its files is found."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.sdk import connect
from tests.support.aiosctl import run_aiosctl
from tests.support.stack import Stack
from tests.support.waiting import eventually
from tests.trust.conftest import ctl_of
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.trust.conftest import Ctl


async def records(ctl: Ctl, task_id: str) -> list[dict[str, Any]]:
    code, found = await ctl("audit", "list", "--task", task_id)
    assert code == 0, found
    return list(found)


@pytest.mark.req("R135", "S-32", "X45")
async def test_a_creation_is_recorded_with_its_parameters_creator_and_time(
    aios: AiosClient, ctl: Ctl
) -> None:
    task_id = await aios.create({"complete": {"result": 1}}, metadata={"user_request": "sum it"})
    task = await aios.ended(task_id)
    created = (await records(ctl, task_id))[0]
    assert created["event"] == "task.created"
    assert created["decision"] == "allowed"
    assert created["method"] == "CreateTask"
    assert created["capability_id"] == "lab.script"
    assert created["principal"].startswith("uid:")
    assert created["time"] == task["created_at"]
    assert created["details"]["arguments"] == {"steps": [{"complete": {"result": 1}}]}
    assert created["details"]["metadata"] == {"user_request": "sum it"}
    assert len(created["request_hash"]) == 64


@pytest.mark.req("R136", "R138")
async def test_each_state_change_and_the_end_are_recorded(aios: AiosClient, ctl: Ctl) -> None:
    task_id = await aios.create(
        {"sleep_ms": 50}, {"ask": {"prompt": "?"}}, {"complete": {"result": {"n": 5}}}
    )
    await aios.until(task_id, "input_required")
    await aios.call("aios/task.input", task_id=task_id, input={"a": 1})
    await aios.ended(task_id)
    changes = [one["details"] for one in (await records(ctl, task_id))[1:]]
    assert [(one["old_state"], one["new_state"]) for one in changes] == [
        ("submitted", "working"),
        ("working", "input_required"),
        ("input_required", "working"),
        ("working", "completed"),
    ]
    assert all("reason" in one for one in changes)
    assert json.loads(changes[-1]["result_summary"]) == {"n": 5}
    assert changes[-1]["duration_ms"] >= 50


@pytest.mark.req("R138")
async def test_a_failure_and_a_cancellation_are_recorded(aios: AiosClient, ctl: Ctl) -> None:
    failed = await aios.create({"fail": {"message": "broken"}})
    await aios.ended(failed)
    last = (await records(ctl, failed))[-1]
    assert last["event"] == "task.failed"
    assert "broken" in last["details"]["result_summary"]
    canceled = await aios.create({"sleep_ms": 60_000})
    await aios.until(canceled, "working")
    await aios.call("aios/task.cancel", task_id=canceled, reason="not needed")
    (end,) = [one for one in await records(ctl, canceled) if one["event"] == "task.canceled"]
    assert end["method"] == "CancelTask"
    assert end["details"]["reason"] == "not needed"


@pytest.mark.req("I43", "S-32")
async def test_a_refusal_is_recorded_before_it_is_answered(aios: AiosClient, ctl: Ctl) -> None:
    task_id = await aios.create({"complete": {}})
    await aios.ended(task_id)
    await aios.refused("aios/task.pause", task_id=task_id)
    last = (await records(ctl, task_id))[-1]
    assert (last["event"], last["decision"]) == ("call.refused", "refused")
    assert last["method"] == "PauseTask"
    assert last["details"]["reason"] == "TASK_STATE_INVALID"


@pytest.mark.req("R135")
async def test_long_parameters_are_cut_at_four_kib(aios: AiosClient, ctl: Ctl) -> None:
    task_id = await aios.create(
        {"complete": {"result": "x" * 20_000}}, metadata={"note": "é" * 10_000}
    )
    await aios.ended(task_id)
    created = (await records(ctl, task_id))[0]
    assert created["details"]["cut"] is True
    text = json.dumps(created["details"], ensure_ascii=False, separators=(",", ":"))
    assert len(text.encode()) <= 4096


@pytest.mark.req("R200", "Z44")
async def test_the_audit_is_apart_from_the_history_of_a_task(aios: AiosClient, ctl: Ctl) -> None:
    task_id = await aios.create({"complete": {}})
    await aios.ended(task_id)
    history = await aios.history(task_id)
    assert [one["state"] for one in history] == ["pending", "working", "completed"]
    assert "hash" not in json.dumps(history)
    assert len(await records(ctl, task_id)) == 3


@pytest.mark.req("S-33")
async def test_the_chain_of_a_running_daemon_is_intact(ctl: Ctl) -> None:
    for offline in (False, True):
        code, finding = await ctl("audit", "verify", offline=offline)
        assert (code, finding["intact"], finding["problem"]) == (0, True, "")
        assert finding["record_count"] > 0


# --- tampering ------------------------------------------------------------------------------------

ATTACKS = {
    "an edit": "UPDATE audit_records SET principal = 'nobody' WHERE sequence = 3",
    "an edited detail": "UPDATE audit_records SET details = '{}' WHERE sequence = 1",
    "a cut": "DELETE FROM audit_records WHERE sequence = 3",
    "a cut beginning": "DELETE FROM audit_records WHERE sequence <= 2",
    "a cut that numbers anew": (
        "DELETE FROM audit_records WHERE sequence = 3;"
        "UPDATE audit_records SET sequence = sequence - 1 WHERE sequence > 3"
    ),
    "a swap": (
        "UPDATE audit_records SET sequence = -1 WHERE sequence = 3;"
        "UPDATE audit_records SET sequence = 3 WHERE sequence = 4;"
        "UPDATE audit_records SET sequence = 4 WHERE sequence = -1"
    ),
    "a cut tail": (
        "DELETE FROM audit_records WHERE sequence = (SELECT max(sequence) FROM audit_records)"
    ),
    "everything": "DELETE FROM audit_records",
    "a forged record": (
        "INSERT INTO audit_records SELECT sequence + 1, time, event, 'mallory', method, task_id,"
        " capability_id, decision, details, request_hash, hash, randomblob(32) FROM audit_records"
        " ORDER BY sequence DESC LIMIT 1"
    ),
}


async def fill(stack: Stack) -> None:
    client = AiosClient(stack.http, stack.token)
    for number in range(3):
        task_id = await client.create({"complete": {"result": number}})
        await client.ended(task_id)
    await client.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of a service that ran some tasks and has stopped."""
    with Stack(tmp_path_factory.mktemp("filled")) as stack:
        asyncio.run(fill(stack))
    return stack.state_dir


def verify(state_dir: Path) -> tuple[int, Any]:
    """`aiosctl audit verify` without a daemon."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(state_dir)}
    where = ("--state-dir", str(state_dir), "-o", "json")
    ran = run_aiosctl(environ, "audit", "verify", *where)
    return ran.code, ran.json


@pytest.mark.req("R139", "S-32", "S-33", "I43")
def test_every_way_of_tampering_with_the_files_is_found_without_a_daemon(
    filled: Path, tmp_path: Path
) -> None:
    code, finding = verify(filled)
    assert (code, finding["intact"]) == (0, True)
    assert finding["record_count"] >= 9
    for name, attack in ATTACKS.items():
        copy = tmp_path / name
        shutil.copytree(filled, copy)
        with closing(sqlite3.connect(copy / "aiosd.db")) as store:
            for trigger in ("audit_records_keep", "audit_records_stay"):
                store.execute(f"DROP TRIGGER {trigger}")
            store.executescript(attack)
            store.commit()
        code, finding = verify(copy)
        assert (code, finding["intact"]) == (1, False), name
        assert finding["problem"], name


@pytest.mark.req("S-33")
@pytest.mark.parametrize("text", [None, '{"sequence": 1, "hash": "00", "mac": "00"}', "nonsense"])
def test_an_older_or_forged_or_missing_anchor_is_found(
    text: str | None, filled: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(filled, copy)
    if text is None:
        (copy / "audit.head").unlink()
    else:
        (copy / "audit.head").write_text(text)
    code, finding = verify(copy)
    assert (code, finding["intact"]) == (1, False)


@pytest.mark.req("R139")
def test_the_store_itself_refuses_to_change_a_record(filled: Path) -> None:
    with closing(sqlite3.connect(filled / "aiosd.db")) as store:
        for statement in ("UPDATE audit_records SET event = 'x'", "DELETE FROM audit_records"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                store.execute(statement)


@pytest.mark.req("S-33")
@pytest.mark.slow
async def test_a_daemon_that_finds_its_chain_cut_says_so_and_keeps_the_evidence(
    own_stack: Stack,
) -> None:
    await fill(own_stack)
    await asyncio.to_thread(own_stack.stop)
    with closing(sqlite3.connect(own_stack.state_dir / "aiosd.db")) as store:
        store.executescript("DROP TRIGGER audit_records_keep; DELETE FROM audit_records")
    anchor = (own_stack.state_dir / "audit.head").read_bytes()
    await asyncio.to_thread(own_stack.start)
    ctl = ctl_of(own_stack)
    code, finding = await ctl("audit", "verify")
    assert (code, finding["intact"]) == (1, False)

    async def degraded() -> bool:
        _, info = await ctl("info")
        return "audit_broken" in info.get("degraded", [])

    await eventually(degraded)
    await asyncio.to_thread(own_stack.stop)
    assert (own_stack.state_dir / "audit.head").read_bytes() == anchor


@pytest.mark.req("S-30", "S-32", "S-28")
def test_keys_and_the_anchor_are_files_of_mode_0600(filled: Path) -> None:
    for name in ("audit.key", "audit.head", "secrets.key", "aiosd.db"):
        assert (filled / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.req("I43", "S-32")
async def test_operations_evidence_and_judgements_are_recorded(
    aios: AiosClient, stack: Stack, ctl: Ctl
) -> None:
    judged = await aios.create({"complete": {"result": 1}})
    await aios.ended(judged)
    async with connect(f"unix:{stack.socket}") as client:
        await client.accept(judged, False, "not what I meant")
        made = await client.operations.create("lab", "model.switch", {"model": "lab-2"})
        await client.operations.wait(made.operation_id)
    last = (await records(ctl, judged))[-1]
    assert (last["event"], last["decision"]) == ("task.judged", "declined")
    assert last["details"]["reason"] == "not what I meant"
    _, found = await ctl("audit", "list")
    about = [
        one
        for one in found
        if one["event"].startswith("operation.")
        and one["details"]["operation_id"] == made.operation_id
    ]
    assert about[0]["event"] == "operation.created"
    assert about[0]["method"] == "CreateOperation"
    assert json.loads(about[0]["details"]["params"]) == {"model": "lab-2"}
    assert about[-1]["event"] == "operation.succeeded"
