from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.wire_aios.client import AiosClient

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.req("R102", "R103", "R104", "R105")
async def test_every_error_can_be_told_apart(aios: AiosClient) -> None:
    completed = await aios.create()
    await aios.ended(completed)
    canceled = await aios.create({"ask": {"prompt": "?"}})
    await aios.until(canceled, "input_required")
    await aios.call("aios/task.cancel", task_id=canceled)
    asking = await aios.create(
        {"ask": {"prompt": "?", "options": [{"id": "a", "label": "A"}]}},
    )
    await aios.until(asking, "input_required")
    errors = [
        await aios.refused("aios/task.get", task_id="task-none"),
        await aios.refused("aios/task.pause", task_id=completed),
        await aios.refused("aios/task.pause", task_id=canceled),
        await aios.refused("aios/task.pause", task_id=asking),
        await aios.refused("aios/task.resume", task_id=asking),
        await aios.refused("aios/task.input", task_id=asking, input={"x": "b"}),
        await aios.refused("aios/task.get"),
        await aios.refused("aios/nothing"),
    ]
    assert [error.brief for error in errors] == [
        (-32106, "Task not found"),
        (-32107, "Task already completed"),
        (-32107, "Task already canceled"),
        (-32108, "Invalid task state"),
        (-32002, "Input required"),
        (-32108, "Invalid input"),
        (-32602, "Invalid params"),
        (-32601, "Method not found"),
    ]
    for error in errors:
        assert MOMENT.fullmatch(error.data["timestamp"])
        assert re.fullmatch("[0-9a-f]{32}", error.data["trace_id"])
    assert len({error.data["error_id"] for error in errors}) == len(errors)


@pytest.mark.req("R105", "S-10")
async def test_a_bad_token_is_told_nothing(aios: AiosClient) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "aios/ping"}
    for token in ("wrong", "aios_" + "0" * 43):
        headers = {"authorization": f"Bearer {token}"}
        answer = await aios.http.post("/aios/rpc", json=body, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert token not in answer.text
    answer = await aios.http.post("/aios/rpc", json=body)
    assert answer.status_code == 200


@pytest.mark.req("H20", "S-13", "S-14")
async def test_pages_of_other_origins_make_no_task(aios: AiosClient) -> None:
    before = (await aios.call("aios/task.list"))["total"]
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "aios/task.create",
        "params": {"capability_id": "lab.script", "options": {"async": True}},
    }
    for headers, status in (
        ({"host": "evil.test"}, 421),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
    ):
        answer = await aios.http.post("/aios/rpc", json=body, headers=headers)
        assert answer.status_code == status
    assert (await aios.call("aios/task.list"))["total"] == before
