"""One task, every wire: each row of the cross-protocol table on a running service, and resolve."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.v1 import (
    access_service_pb2,
    access_service_pb2_grpc,
    audit_service_pb2,
    audit_service_pb2_grpc,
    task_pb2,
)
from aiosd.sdk import Client, connect
from tests.gateway.openapi.test_projection import TABLE
from tests.wire_openapi.client import ENDLESS, Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.stack import Stack

# How a task comes into the state of a row, by the row's state and failure code: the capability,
# the steps, and what is done to it then.
WAYS: list[tuple[tuple[str, int], str, list[dict[str, Any]], str]] = [
    (("WORKING", 0), "lab.script", [ENDLESS], ""),
    (("PAUSED", 0), "lab.script", [ENDLESS], "pause"),
    (("INPUT_REQUIRED", 0), "lab.script", [{"ask": {"prompt": "?"}}], ""),
    (("AUTH_REQUIRED", 0), "lab.script", [{"auth": {"type": "api_key"}}], ""),
    (("COMPLETED", 0), "lab.script", [], ""),
    (("FAILED", -32005), "lab.script.brief", [{"sleep_ms": 60_000}], ""),
    (("FAILED", -32603), "lab.script", [{"fail": {"message": "no"}}], ""),
    (("REJECTED", -32113), "lab.script", [{"reject": {"reason": "busy"}}], ""),
    (("REJECTED", -32113), "lab.script", [{"sleep_ms": 1}, {"reject": {"reason": "busy"}}], ""),
    (("REJECTED", -32113), "lab.script", [{"fail": {"code": -32113, "message": "no"}}], ""),
    (("CANCELED", 0), "lab.script", [ENDLESS], "cancel"),
]
ROWS = {(state, code): words for state, code, *words in TABLE}


async def rpc(api: Api, path: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a JSON-RPC call of another wire."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await api.http.post(path, json=body, headers={"a2a-version": "1.0"})).json()
    assert "result" in answer, answer
    result: dict[str, Any] = answer["result"]
    return result


class Views:
    """One task as each wire shows it."""

    def __init__(self, aios: Any, a2a: Any, openapi: Any, product: Any) -> None:
        self.aios, self.a2a, self.openapi, self.product = aios, a2a, openapi, product

    @classmethod
    async def of(cls, api: Api, task_id: str) -> Views:
        return cls(
            await rpc(api, "/aios/rpc", "aios/task.get", {"task_id": task_id}),
            await rpc(api, "/a2a", "GetTask", {"id": task_id}),
            await api.get(task_id),
            await api.ok("GET", f"/product/tasks/{task_id}"),
        )

    @property
    def words(self) -> list[str]:
        """As in a row of the table."""
        return [
            self.aios["status"],
            self.a2a["status"]["state"],
            self.openapi["status"],
            self.product["status"],
            self.product.get("reason", ""),
        ]

    @property
    def doubts(self) -> set[tuple[str, str]]:
        """Certainty and policy as each wire tells them of a failure: one pair if all agree.

        Wires that also know `not_started` mean a certain failure by it (design.md 16).
        """
        failure = self.aios["error"]["data"]
        shown = [self.aios, failure, self.openapi["error"]["data"]]
        shown += [self.openapi["product"], self.product]
        pairs = [(view["outcome_certainty"], view["retry_policy"]) for view in shown]
        metadata = self.a2a["metadata"]
        pairs.append((metadata["aiosOutcomeCertainty"], metadata["aiosRetryPolicy"]))
        return {(word.replace("not_started", "certain"), policy) for word, policy in pairs}


async def check_row(api: Api, task_id: str, state: str, code: int) -> None:
    """The task is in the words of its row, in lists too, and in doubt on all wires or on none."""
    views = await Views.of(api, task_id)
    words = ROWS[state, code]
    assert views.words == words
    members = {name: views.product[name] for name in views.openapi["product"]}
    assert members == views.openapi["product"]
    paused = state == "PAUSED"
    assert views.a2a["metadata"].get("aiosPaused", False) is paused
    assert views.openapi["metadata"].get("paused", False) is paused
    if code:
        assert views.aios["error"]["code"] == views.openapi["error"]["code"] == code
        assert len(views.doubts) == 1
    for path, word in (("/tasks", words[2]), ("/product/tasks", words[3])):
        found = await api.ok("GET", f"{path}?status={word}&limit=200")
        assert task_id in [one["task_id"] for one in found["tasks"]]


@pytest.mark.req("R148", "R150", "R151", "R152", "R153", "R154", "R156", "R171", "X43", "Y01")
@pytest.mark.parametrize(("row", "capability_id", "steps", "verb"), WAYS)
async def test_a_task_is_in_the_words_of_its_row_on_every_wire(
    api: Api, row: tuple[str, int], capability_id: str, steps: list[dict[str, Any]], verb: str
) -> None:
    task_id = await api.create(*steps, capability_id=capability_id)
    if verb:
        await api.until(task_id, "running")
        await rpc(api, "/aios/rpc", f"aios/task.{verb}", {"task_id": task_id})
    await api.until(task_id, ROWS[row][2])
    await check_row(api, task_id, *row)


@pytest.mark.req("R155", "R172", "Y17")
@pytest.mark.parametrize("word", ["canceled", "cancelled"])
async def test_either_spelling_is_read_on_every_wire(api: Api, word: str) -> None:
    task_id = await api.create(ENDLESS, context_id=f"spelled-{word}")
    await api.ok("POST", f"/tasks/{task_id}/cancel")
    query = f"status={word}&context_id=spelled-{word}"
    for path in (f"/tasks?{query}", f"/product/tasks?{query}"):
        found = await api.ok("GET", path)
        assert [one["task_id"] for one in found["tasks"]] == [task_id]
    listed = await rpc(api, "/aios/rpc", "aios/task.list", {"filter": {"status": [word]}})
    assert task_id in [one["task_id"] for one in listed["tasks"]]
    shown = {"contextId": f"spelled-{word}", "status": word}
    on_a2a = await rpc(api, "/a2a", "ListTasks", shown)
    assert [one["id"] for one in on_a2a["tasks"]] == [task_id]


# --- resolve --------------------------------------------------------------------------------------

DOUBT = {("uncertain", "manual_review")}
NO_DOUBT = {("certain", "none")}
EVIDENCE = "the bank says so"


@pytest.fixture
async def native(stack: Stack) -> AsyncIterator[Client]:
    async with connect(f"unix:{stack.socket}", stack.token) as client:
        yield client


@pytest.mark.req("R144", "R145", "R146", "R147")
@pytest.mark.parametrize("outcome", ["completed", "failed", "retry"])
async def test_a_resolved_doubt_is_one_on_no_wire_any_more(
    api: Api, native: Client, outcome: str
) -> None:
    task_id = await api.create({"sleep_ms": 60_000}, capability_id="lab.script.brief")
    await api.ended(task_id)
    before = await Views.of(api, task_id)
    assert before.doubts == DOUBT

    body = {"outcome": outcome, "evidence": EVIDENCE}
    closed = await api.ok("POST", f"/tasks/{task_id}/resolve", json=body)
    again = closed["resolution"].get("retried_as", "")
    assert bool(again) == (outcome == "retry")
    after = await Views.of(api, task_id)
    assert after.words == before.words
    assert after.doubts == NO_DOUBT
    for shown in (after.aios["resolution"], after.openapi["resolution"]):
        assert shown == closed["resolution"]
        assert (shown["outcome"], shown["evidence"]) == (outcome, EVIDENCE)
    on_a2a = after.a2a["metadata"]["aiosResolution"]
    assert (on_a2a["outcome"], on_a2a["evidence"]) == (outcome, EVIDENCE)
    task = await native.get(task_id)
    assert (task.outcome, task.resolution.outcome) == (task_pb2.OUTCOME_CERTAIN, outcome)
    assert task.state == task_pb2.TASK_STATE_FAILED
    if again:
        assert (await Views.of(api, again)).a2a["metadata"]["aiosRetriedFrom"] == task_id

    # Who follows the task is told, on either stream.
    frames = await api.stream(f"/tasks/{task_id}/events")
    told = [one.data for one in frames if one.data.get("type") == "task_resolved"]
    assert [one["resolution"] for one in told] == [closed["resolution"]]
    missed = await rpc(api, "/aios/rpc", "aios/task.resubscribe", {"task_id": task_id})
    assert missed["missed_events"][-1]["data"]["resolution"] == closed["resolution"]

    audit = audit_service_pb2_grpc.AuditServiceStub(native.channel)
    request = audit_service_pb2.ListAuditRecordsRequest(task_id=task_id, page_size=200)
    records = (
        await audit.ListAuditRecords(request, metadata=(("authorization", f"Bearer {api.token}"),))
    ).records
    (record,) = [one for one in records if one.event == "task.resolved"]
    assert (record.decision, record.principal) == (outcome, closed["resolution"]["by"])
    assert record.method.endswith("ResolveTask")
    details = json.loads(record.details)
    assert (details["evidence"], details["retried_as"]) == (EVIDENCE, again)


@pytest.mark.req("R147")
async def test_only_who_may_control_a_task_resolves_it(
    api: Api, caller: Callable[..., Api], stack: Stack
) -> None:
    reader = caller("reader", "task:create", "task:read")
    task_id = await reader.create({"sleep_ms": 60_000}, capability_id="lab.script.brief")
    await reader.ended(task_id)
    body = {"outcome": "completed", "evidence": "I think so"}
    path = f"/tasks/{task_id}/resolve"
    await reader.refused("POST", path, 403, "forbidden", json=body)
    other = caller("somebody", "task:read", "task:control")
    for stranger in (api, other):
        await stranger.refused("POST", path, 404, "agent_not_found", json=body)
    assert (await reader.get(task_id))["product"]["outcome_certainty"] == "uncertain"
    # An administrator may, and is named as who judged.
    administrator = {"authorization": f"Bearer {await administrator_token(stack)}"}
    closed = await api.ok("POST", path, json=body, headers=administrator)
    assert closed["resolution"]["by"] == "administrator"


async def administrator_token(stack: Stack) -> str:
    async with connect(f"unix:{stack.socket}", stack.approver_token()) as person:
        access = access_service_pb2_grpc.AccessServiceStub(person.channel)
        request = access_service_pb2.CreateTokenRequest(
            principal="administrator", scopes=["admin:*"]
        )
        metadata = (("authorization", f"Bearer {stack.approver_token()}"),)
        return str((await access.CreateToken(request, metadata=metadata)).secret)
