"""Sessions on the AIOS wire (wire.md 1.2, X38, X41)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.wire_aios.client import AiosClient

HELLO = {
    "protocol_version": "0.3.0",
    "client_info": {"name": "test", "version": "1"},
}


@pytest.mark.req("R094", "X38")
async def test_initialize_opens_a_session_that_info_shows_and_close_ends(
    aios: AiosClient,
) -> None:
    opened = (await aios.response("aios/initialize", HELLO))["result"]["session"]
    named = {"session_id": opened["session_id"]}
    shown = (await aios.response("aios/session.info", named))["result"]
    assert shown["session_id"] == opened["session_id"]
    await aios.response("aios/session.close", named)
    error = (await aios.response("aios/session.info", named))["error"]
    assert error["code"] == -32105
    assert error["data"]["error_id"] == "AIOS-SESSION-NOT-FOUND"


@pytest.mark.req("X41", "R059")
async def test_closing_a_session_cancels_its_synchronous_tasks_only(aios: AiosClient) -> None:
    opened = (await aios.response("aios/initialize", HELLO))["result"]["session"]
    header = {"AIOS-Session-Id": opened["session_id"]}

    def task(asynchronous: bool) -> dict[str, object]:
        steps = [{"progress": {"percent": 1}}, {"sleep_ms": 20_000}]
        options = {"async": asynchronous, "timeout_ms": 60_000}
        return {"capability_id": "lab.script", "arguments": {"steps": steps}, "options": options}

    lasting = (await aios.response("aios/task.create", task(True), **header))["result"]
    waiting = asyncio.ensure_future(aios.response("aios/task.create", task(False), **header))

    async def both_work() -> bool:
        wanted = {"filter": {"status": ["working"]}}
        rows = (await aios.response("aios/task.list", wanted))["result"]["tasks"]
        return len(rows) >= 2

    assert await eventually(both_work)
    closed = (await aios.response("aios/shutdown", {"reason": "client_exit"}, **header))["result"]
    assert closed["pending_tasks_cancelled"] == 1
    assert (await waiting)["result"]["status"] == "canceled"
    named = {"task_id": lasting["task_id"]}
    assert (await aios.response("aios/task.get", named))["result"]["status"] == "working"
    await aios.response("aios/task.cancel", named)
