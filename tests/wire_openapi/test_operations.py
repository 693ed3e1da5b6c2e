"""Runtime operations and instances over /api/v1 (R162-R170 as HTTP shows them).

The client checks every snapshot that it is shown (R169), and every log from its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.wire_openapi.client import Api


@pytest.mark.req("R162", "R163", "R169")
async def test_an_operation_succeeds_and_its_events_can_be_resumed(api: Api) -> None:
    made = await api.operation({"commit": {"model": "lab-7"}})
    done = await api.operation_until(made["id"], "succeeded")
    instance = await api.ok("GET", "/instances/lab")
    assert instance["state"]["model"] == "lab-7"
    assert instance["attached"] is True
    assert done["projection"]["revision"] == instance["revision"]
    path = f"/operations/{made['id']}/events"
    frames = await api.stream(path)
    assert frames[-1].event == "runtime_rpc_response"
    assert frames[-1].data["outcome"] == "succeeded"
    numbers = [int(frame.id) for frame in frames]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    rest = await api.stream(path, **{"last-event-id": frames[1].id})
    assert [frame.id for frame in rest] == [frame.id for frame in frames[2:]]
    ahead = await api.refused(
        "GET", path, 409, "OPERATION_CURSOR_AHEAD", headers={"last-event-id": "999"}
    )
    last = frames[-1].id
    assert ahead["metadata"] == {"operationId": made["id"], "cursor": "999", "lastSequence": last}


@pytest.mark.req("R164", "R165", "R169")
async def test_a_blocked_projection_recovers(api: Api) -> None:
    made = await api.operation({"commit_invalid": 1}, {"commit": {"model": "lab-8"}})
    await api.operation_until(made["id"], "succeeded")
    frames = await api.stream(f"/operations/{made['id']}/events")
    assert "runtime_projection_blocked" in [frame.event for frame in frames]


@pytest.mark.req("R168")
async def test_a_failure_keeps_every_detail_beside_the_simple_view(api: Api) -> None:
    made = await api.operation({"fail": {"message": "no"}})
    failed = await api.operation_until(made["id"], "failed")
    assert failed["product"]["status"] == "failed"
    assert failed["error"].keys() >= {"code", "message", "retryMode", "effectState", "operationId"}
    assert failed["product"]["retry_policy"] == failed["error"]["retryMode"]


@pytest.mark.req("R170", "R171")
async def test_cancel_is_a_request_before_the_effect_and_a_conflict_after(api: Api) -> None:
    made = await api.operation({"sleep_ms": 600_000})
    await api.operation_until(made["id"], "running")
    asked = await api.ok("POST", f"/operations/{made['id']}/cancel", 202, json={"reason": "no"})
    assert asked["status"] == "cancel_requested"
    gone = await api.operation_until(made["id"], "cancelled")
    assert gone["cancelRequest"]["reason"] == "no"
    assert gone["product"]["status"] == "cancelled"
    done = await api.operation({"commit": {"model": "lab-9"}})
    before = await api.operation_until(done["id"], "succeeded")
    await api.refused("POST", f"/operations/{done['id']}/cancel", 409, "OPERATION_NOT_CANCELLABLE")
    assert await api.ok("GET", f"/operations/{done['id']}") == before


@pytest.mark.req("R166")
async def test_a_key_finds_the_operation_and_an_old_command_expires(api: Api) -> None:
    steps = {"commit": {"model": "lab-10"}}
    first = await api.operation(steps, **{"Idempotency-Key": "op-1"})
    again = await api.operation(steps, **{"Idempotency-Key": "op-1"})
    assert again["id"] == first["id"]
    blocker = await api.operation({"sleep_ms": 600_000})
    await api.operation_until(blocker["id"], "running")
    body = {
        "target": {"scope": "instance", "id": "lab"},
        "method": "agent.restart",
        "deadline_ms": 1,
    }
    late = await api.ok("POST", "/operations", 202, json=body)
    expired = await api.operation_until(late["id"], "expired")
    assert (expired["error"]["code"], expired["error"]["retryMode"]) == (
        "COMMAND_EXPIRED",
        "resubmit",
    )
    assert expired["product"] == {
        "status": "failed",
        "reason": "expired",
        "outcome_certainty": "certain",
        "retry_policy": "resubmit",
    }
    await api.ok("POST", f"/operations/{blocker['id']}/cancel", 202)
    active = await api.ok("GET", "/operations?status=active&limit=200")
    assert first["id"] not in [one["id"] for one in active["operations"]]


async def test_wrong_operations_are_refused_by_name(api: Api) -> None:
    good = {"target": {"scope": "instance", "id": "lab"}, "method": "model.switch"}
    for change, status, code, param in (
        ({"target": {"scope": "planet", "id": "lab"}}, 400, "invalid_param", "target.scope"),
        ({"target": {"scope": "instance", "id": "none"}}, 404, "agent_not_found", "target.id"),
        ({"method": "fly"}, 400, "METHOD_NOT_SUPPORTED", "method"),
    ):
        error = await api.refused("POST", "/operations", status, code, json=good | change)
        assert error["param"] == param
    await api.refused("GET", "/operations/none", 404, "OPERATION_NOT_FOUND")
    await api.refused("GET", "/operations?cursor=x", 400, "invalid_param")
    await api.refused("GET", "/instances/none", 404, "agent_not_found")
