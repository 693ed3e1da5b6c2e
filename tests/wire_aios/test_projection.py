"""The same task on the AIOS wire and on A2A."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_aios.client import ENDLESS
from tests.wire_aios.test_states import reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient


async def on_a2a(aios: AiosClient, task_id: str) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    answer = await aios.http.post("/a2a", json=body, headers={"a2a-version": "1.0"})
    task: dict[str, Any] = answer.json()["result"]
    return task


@pytest.mark.req("R038", "R088", "X43")
@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("working", "TASK_STATE_WORKING"),
        ("paused", "TASK_STATE_WORKING"),
        ("input_required", "TASK_STATE_INPUT_REQUIRED"),
        ("auth_required", "TASK_STATE_AUTH_REQUIRED"),
        ("completed", "TASK_STATE_COMPLETED"),
        ("failed", "TASK_STATE_FAILED"),
        ("canceled", "TASK_STATE_CANCELED"),
    ],
)
async def test_a_status_has_its_state_in_a2a(aios: AiosClient, status: str, state: str) -> None:
    task = await on_a2a(aios, await reach(aios, status))
    assert task["status"]["state"] == state
    assert (task.get("metadata") or {}).get("aiosPaused", False) is (status == "paused")


@pytest.mark.req("R038")
async def test_a_pending_task_is_submitted_in_a2a(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient]
) -> None:
    aios = connect(start_stack(max_concurrent_tasks=1))
    await aios.until(await aios.create(ENDLESS), "working")
    pending = await aios.create()
    assert (await on_a2a(aios, pending))["status"]["state"] == "TASK_STATE_SUBMITTED"


@pytest.mark.req("R088", "X33")
async def test_an_artifact_is_the_same_in_a2a(aios: AiosClient) -> None:
    parts = [
        {"type": "text", "text": "价格"},
        {"type": "data", "data": {"n": 1}},
        {"type": "image", "image": {"uri": "https://example.org/a.png", "mime_type": "image/png"}},
    ]
    task_id = await aios.create({"artifact": {"name": "r", "type": "report", "parts": parts}})
    await aios.ended(task_id)
    (artifact,) = [one for one in (await on_a2a(aios, task_id))["artifacts"] if one["name"] == "r"]
    assert artifact["parts"][0]["text"] == "价格"
    assert artifact["parts"][1]["data"] == {"n": 1}
    assert artifact["parts"][2]["url"] == "https://example.org/a.png"
    assert artifact["parts"][2]["mediaType"] == "image/png"
    (summary,) = (await aios.get(task_id))["artifacts"]
    assert summary["id"] == artifact["artifactId"]
