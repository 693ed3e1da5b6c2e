from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_aios.client import ENDLESS, AiosClient, WireError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.stack import Stack

STATUSES = {
    "pending",
    "working",
    "paused",
    "input_required",
    "auth_required",
    "completed",
    "failed",
    "canceled",
}
FOLLOWING = {
    "pending": {"working", "failed", "canceled"},
    "working": {
        "completed",
        "failed",
        "paused",
        "input_required",
        "auth_required",
        "canceled",
    },
    "paused": {"working", "canceled"},
    "input_required": {"working", "canceled"},
    "auth_required": {"working", "canceled"},
    "completed": set[str](),
    "failed": set[str](),
    "canceled": set[str](),
}
ASK = {"ask": {"prompt": "Which?", "options": [{"id": "a", "label": "A"}]}}
AUTH = {"auth": {"type": "api_key", "provider": "shop", "reason": "to buy"}}
CALLS: dict[str, dict[str, Any]] = {
    "pause": {},
    "resume": {},
    "cancel": {},
    "input": {"input": {"choice": "a"}},
    "authenticate": {"auth_response": {"type": "api_key", "api_key": "k-1234567"}},
}
LEGAL = {
    "pending": {"cancel"},
    "working": {"pause", "cancel"},
    "paused": {"resume", "cancel"},
    "input_required": {"input", "cancel"},
    "auth_required": {"authenticate", "cancel"},
}


async def reach(aios: AiosClient, status: str) -> str:
    """A task in this status."""
    match status:
        case "working":
            task_id = await aios.create(ENDLESS)
        case "paused":
            task_id = await aios.create(ENDLESS)
            await aios.until(task_id, "working")
            await aios.call("aios/task.pause", task_id=task_id)
        case "input_required":
            task_id = await aios.create(ASK)
        case "auth_required":
            task_id = await aios.create(AUTH)
        case "completed":
            task_id = await aios.create()
        case "failed":
            task_id = await aios.create({"fail": {"code": -32050, "message": "no"}})
        case _:
            task_id = await aios.create(ENDLESS)
            await aios.until(task_id, "working")
            await aios.call("aios/task.cancel", task_id=task_id)
    await aios.until(task_id, status)
    return task_id


def edges(history: list[dict[str, Any]]) -> list[tuple[str, str]]:
    states = [entry["state"] for entry in history]
    return list(pairwise(states))


@pytest.mark.req("R033", "R034", "R036", "R039", "R040", "R041")
async def test_the_edges_from_working_and_back(aios: AiosClient) -> None:
    task_id = await aios.create(ASK, AUTH, {"sleep_ms": 600_000})
    await aios.until(task_id, "input_required")
    answered = await aios.call("aios/task.input", task_id=task_id, input={"choice": "a"})
    assert (answered["status"], "input_accepted_at" in answered) == ("working", True)
    await aios.until(task_id, "auth_required")
    granted = await aios.call("aios/task.authenticate", task_id=task_id, **CALLS["authenticate"])
    assert (granted["status"], "authenticated_at" in granted) == ("working", True)
    paused = await aios.call("aios/task.pause", task_id=task_id)
    assert (paused["status"], "paused_at" in paused) == ("paused", True)
    resumed = await aios.call("aios/task.resume", task_id=task_id)
    assert (resumed["status"], "resumed_at" in resumed) == ("working", True)
    canceled = await aios.call("aios/task.cancel", task_id=task_id)
    assert (canceled["status"], "canceled_at" in canceled) == ("canceled", True)
    assert edges(await aios.history(task_id)) == [
        ("pending", "working"),
        ("working", "input_required"),
        ("input_required", "working"),
        ("working", "auth_required"),
        ("auth_required", "working"),
        ("working", "paused"),
        ("paused", "working"),
        ("working", "canceled"),
    ]


@pytest.mark.req("R034", "R039")
async def test_the_edges_to_the_ends(aios: AiosClient) -> None:
    completed = await aios.get(await reach(aios, "completed"))
    assert completed["result"] == {"inputs": [], "attempt": 1}
    assert completed["completed_at"] >= completed["started_at"]
    failed = await aios.get(await reach(aios, "failed"))
    assert (failed["error"]["code"], failed["error"]["message"]) == (-32050, "no")
    assert failed["failed_at"] >= failed["started_at"]
    for waiting in ("paused", "input_required", "auth_required"):
        task_id = await reach(aios, waiting)
        await aios.call("aios/task.cancel", task_id=task_id)
        assert edges(await aios.history(task_id))[-1] == (waiting, "canceled")


@pytest.mark.req("R034", "R036", "R037", "R035", "R043")
@pytest.mark.slow
async def test_the_edges_from_pending(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(max_concurrent_tasks=1, max_tasks_per_tool=1))
    running = await aios.create(ENDLESS)
    await aios.until(running, "working")
    waiting = await aios.create()
    rejected = await aios.create({"reject": {"reason": "not mine"}})
    for name, params in CALLS.items():
        if name != "cancel":
            error = await aios.refused(f"aios/task.{name}", task_id=waiting, **params)
            assert error.brief == (-32108, "Invalid task state"), name
            assert error.data["current_status"] == "pending"
            assert set(error.data["allowed"]) == FOLLOWING["pending"]
    assert await aios.status(waiting) == "pending"
    await aios.call("aios/task.cancel", task_id=waiting)
    assert edges(await aios.history(waiting)) == [("pending", "canceled")]
    assert "started_at" not in await aios.get(waiting)
    await aios.call("aios/task.cancel", task_id=running)
    await aios.ended(rejected)
    assert edges(await aios.history(rejected)) == [("pending", "failed")]
    task = await aios.get(rejected)
    assert (task["error"]["code"], task["error"]["data"]["reason"]) == (-32113, "rejected")
    assert task["outcome_certainty"] == "not_started"


@pytest.mark.req("R030", "R035", "R043", "R044", "R045", "R046", "R047", "R048", "R111")
@pytest.mark.parametrize("status", sorted(STATUSES - {"pending"}))
async def test_a_call_that_a_status_does_not_take_changes_nothing(
    aios: AiosClient, status: str
) -> None:
    task_id = await reach(aios, status)
    before = await aios.get(task_id, include_history=True)
    told = await aios.events(task_id)
    for name in CALLS.keys() - LEGAL.get(status, set()):
        error = await aios.refused(f"aios/task.{name}", task_id=task_id, **CALLS[name])
        if status == "completed":
            wanted = (-32107, "Task already completed", "AIOS-TASK-ALREADY-COMPLETED")
        elif status == "canceled":
            wanted = (-32107, "Task already canceled", "AIOS-TASK-ALREADY-CANCELED")
        elif (status, name) == ("input_required", "resume"):
            wanted = (-32002, "Input required", "AIOS-TASK-INPUT-REQUIRED")
        else:
            wanted = (-32108, "Invalid task state", "AIOS-TASK-INVALID-STATE")
        assert (*error.brief, error.data["error_id"]) == wanted, name
        assert error.data["current_status"] == status
        assert set(error.data["allowed"]) == FOLLOWING[status]
        assert error.data["attempted"] == name
    assert await aios.get(task_id, include_history=True) == before
    assert await aios.events(task_id) == told


@pytest.mark.req("R029", "R031", "X50")
async def test_an_answer_that_was_not_offered_is_refused(aios: AiosClient) -> None:
    schema = {
        "type": "object",
        "required": ["count"],
        "properties": {"count": {"type": "integer", "minimum": 1}},
    }
    for question, wrong, right in (
        (ASK, {"choice": "b"}, {"choice": "a"}),
        ({"ask": {"prompt": "How many?", "schema": schema}}, {"count": 0}, {"count": 2}),
    ):
        task_id = await aios.create(question)
        await aios.until(task_id, "input_required")
        error = await aios.refused("aios/task.input", task_id=task_id, input=wrong)
        assert (*error.brief, error.data["error_id"]) == (
            -32108,
            "Invalid input",
            "AIOS-TASK-INVALID-INPUT",
        )
        assert await aios.status(task_id) == "input_required"
        await aios.call("aios/task.input", task_id=task_id, input=right)
        task = await aios.ended(task_id)
        assert task["result"]["inputs"] == [right]


@pytest.mark.req("R042")
async def test_of_two_calls_that_race_one_wins(aios: AiosClient) -> None:
    for _ in range(5):
        task_id = await reach(aios, "input_required")
        answers = await asyncio.gather(
            aios.call("aios/task.cancel", task_id=task_id),
            aios.call("aios/task.cancel", task_id=task_id),
            return_exceptions=True,
        )
        failed = [answer for answer in answers if isinstance(answer, WireError)]
        assert [error.code for error in failed] == [-32107]
        states = [entry["state"] for entry in await aios.history(task_id)]
        assert states.count("canceled") == 1
    task_id = await reach(aios, "input_required")
    answers = await asyncio.gather(
        aios.call("aios/task.input", task_id=task_id, input={"choice": "a"}),
        aios.call("aios/task.cancel", task_id=task_id),
        return_exceptions=True,
    )
    history = await aios.history(task_id)
    assert all(after in FOLLOWING[before] for before, after in edges(history))


@pytest.mark.req("R026")
async def test_the_reason_of_a_cancel_is_kept(aios: AiosClient) -> None:
    task_id = await reach(aios, "working")
    canceled = await aios.call("aios/task.cancel", task_id=task_id, reason="user_request")
    assert canceled.keys() == {"task_id", "status", "canceled_at"}
    assert (await aios.history(task_id))[-1]["reason"] == "user_request"


@pytest.mark.req("R040", "R043", "X09")
async def test_a_capability_may_be_unable_to_pause(aios: AiosClient) -> None:
    task_id = await aios.create(ENDLESS, capability_id="lab.script.unpausable")
    await aios.until(task_id, "working")
    error = await aios.refused("aios/task.pause", task_id=task_id)
    assert (error.code, error.data["reason"]) == (-32108, "not_pausable")
    assert await aios.status(task_id) == "working"


@pytest.mark.req("R027", "R028", "R096")
async def test_a_paused_task_stands_still(aios: AiosClient, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = []
    for _ in range(200):
        steps += [{"sleep_ms": 20}, {"touch": str(tmp_path / "effects")}]
    task_id = await aios.create(*steps)
    await aios.until(task_id, "working")
    await aios.call("aios/task.pause", task_id=task_id)
    path = tmp_path / "effects"
    written = path.read_text() if path.exists() else ""
    for _ in range(3):
        assert await aios.status(task_id) == "paused"
    assert (path.read_text() if path.exists() else "") == written
    await aios.call("aios/task.resume", task_id=task_id)
    assert await aios.status(task_id) == "working"


@pytest.mark.req("R049", "X10")
async def test_a_late_result_never_changes_a_canceled_task(aios: AiosClient) -> None:
    task_id = await aios.create({"late_complete_ms": 100})
    await aios.until(task_id, "working")
    await aios.call("aios/task.cancel", task_id=task_id)
    probe = await aios.create({"sleep_ms": 400})
    await aios.ended(probe)
    task = await aios.get(task_id, include_history=True)
    assert task["status"] == "canceled"
    assert "result" not in task
    assert task["state_history"][-1]["state"] == "canceled"


@pytest.mark.req("R042", "R196")
async def test_a_second_result_is_not_a_second_end(aios: AiosClient) -> None:
    task_id = await aios.create({"complete_twice": {"result": {"n": 1}}})
    task = await aios.ended(task_id)
    assert task["result"] == {"n": 1}
    told = await aios.events(task_id)
    assert [event.event for event in told].count("task.result") == 1


@pytest.mark.req("R050", "R112", "X04")
@pytest.mark.parametrize("step", ["ask", "auth"])
async def test_a_wait_that_expires_fails_through_working(aios: AiosClient, step: str) -> None:
    details: dict[str, Any] = {"timeout_ms": 200}
    details |= {"prompt": "?"} if step == "ask" else {"type": "api_key"}
    task_id = await aios.create({step: details})
    task = await aios.ended(task_id)
    waiting = "input_required" if step == "ask" else "auth_required"
    assert edges(await aios.history(task_id)) == [
        ("pending", "working"),
        ("working", waiting),
        (waiting, "working"),
        ("working", "failed"),
    ]
    assert (task["error"]["code"], task["error"]["message"]) == (-32005, "Timeout")
    data = task["error"]["data"]
    assert (data["reason"], data["capability_id"]) == ("wait_expired", "lab.script")
    assert data["waiting_for"] == ("input" if step == "ask" else "auth")
    assert data["timeout_ms"] == 200
    assert data["elapsed_ms"] >= 200
    assert (await aios.history(task_id))[3]["reason"] == "wait_expired"


@pytest.mark.req("R051", "R052", "R053", "R054", "R055")
async def test_the_history_tells_the_whole_way(aios: AiosClient) -> None:
    task_id = await aios.create(ASK, {"complete": {"result": {"ok": True}}})
    await aios.until(task_id, "input_required")
    await aios.call("aios/task.input", task_id=task_id, input={"choice": "a"})
    task = await aios.ended(task_id)
    assert task["result"] == {"ok": True}
    assert "state_history" not in task
    history = await aios.history(task_id)
    assert [entry["state"] for entry in history] == [
        "pending",
        "working",
        "input_required",
        "working",
        "completed",
    ]
    stamps = [entry["timestamp"] for entry in history]
    assert stamps == sorted(stamps)
    assert history[2]["reason"]
    assert history[2]["metadata"] == {"prompt": "Which?", "options_count": 1}
    assert history[3]["reason"]
