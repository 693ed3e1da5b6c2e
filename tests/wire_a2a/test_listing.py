"""ListTasks: exact pages, all filters, four members always (a2a.md 5.7)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_a2a.raw import BINDINGS, GRPC, JSONRPC, Problem
from tests.wire_a2a.said import script, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw


async def made(raw: Raw, context_id: str, count: int, *steps: dict[str, Any]) -> list[str]:
    """Ids of completed tasks of a context, in order."""
    tasks = [
        await raw.call(JSONRPC, "SendMessage", send(script(*steps, contextId=context_id)))
        for _ in range(count)
    ]
    return [str(task["task"]["id"]) for task in tasks]


async def test_pages_hold_every_task_once_newest_first(raw: Raw, binding: str) -> None:
    context_id = f"pages-{binding}"
    ids = await made(raw, context_id, 7)
    seen: list[str] = []
    token = ""
    for _ in range(10):
        params = {"contextId": context_id, "pageSize": 3, "pageToken": token}
        page = await raw.call(binding, "ListTasks", params)
        assert page["pageSize"] == 3
        assert page["totalSize"] == 7
        seen += [task["id"] for task in page["tasks"]]
        token = page.get("nextPageToken", "")
        if not token:
            break
        # What comes meanwhile does not disturb a walk that has begun.
        if len(seen) == 3:
            await made(raw, "another", 1)
    assert seen == ids[::-1]


async def test_the_four_members_are_always_there(raw: Raw) -> None:
    for binding in BINDINGS:
        page = await raw.call(binding, "ListTasks", {"contextId": "no such context"})
        if binding != GRPC:  # proto3 has no way to show that a zero is there
            assert page == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


async def test_artifacts_and_history_come_when_they_are_asked_for(raw: Raw, binding: str) -> None:
    context_id = f"content-{binding}"
    artifact = {"artifact": {"name": "n", "parts": [{"type": "text", "text": "t"}]}}
    await made(raw, context_id, 1, artifact, {"complete": {"result": None}})
    await made(raw, context_id, 1, {"complete": {"result": None}})

    async def page(**params: Any) -> list[dict[str, Any]]:
        answer = await raw.call(binding, "ListTasks", {"contextId": context_id} | params)
        return list(answer["tasks"])

    for plain in await page():
        assert "artifacts" not in plain
        assert "history" not in plain
    for plain in await page(includeArtifacts=False, historyLength=0):
        assert "artifacts" not in plain
        assert "history" not in plain
    without, with_artifact = await page(includeArtifacts=True, historyLength=1)
    assert with_artifact["artifacts"][0]["parts"] == [{"text": "t"}]
    assert len(with_artifact["history"]) == 1
    if binding != GRPC:
        assert without["artifacts"] == []


async def test_filters_are_joined(raw: Raw, binding: str) -> None:
    context_id = f"filters-{binding}"
    (done,) = await made(raw, context_id, 1)
    params = send(script({"ask": {"prompt": "?"}}, contextId=context_id))
    waiting = (await raw.call(JSONRPC, "SendMessage", params))["task"]

    async def ids(**filters: Any) -> list[str]:
        answer = await raw.call(binding, "ListTasks", {"contextId": context_id} | filters)
        return [task["id"] for task in answer.get("tasks", [])]

    assert await ids() == [waiting["id"], done]
    assert await ids(status="TASK_STATE_COMPLETED") == [done]
    assert await ids(status="TASK_STATE_INPUT_REQUIRED") == [waiting["id"]]
    assert await ids(status="TASK_STATE_FAILED") == []
    since = waiting["status"]["timestamp"]
    assert await ids(statusTimestampAfter=since) == [waiting["id"]]
    later = datetime.fromisoformat(since) + timedelta(milliseconds=1)
    assert await ids(statusTimestampAfter=later.isoformat().replace("+00:00", "Z")) == []
    assert await ids(status="TASK_STATE_COMPLETED", statusTimestampAfter=since) == []
    assert await ids(tenant="lab.script") == [waiting["id"], done]
    assert await ids(tenant="lab.other.script") == []
    listed = await raw.call(
        binding, "ListTasks", {"contextId": context_id, "status": "TASK_STATE_INPUT_REQUIRED"}
    )
    got = await raw.call(binding, "GetTask", {"id": waiting["id"], "historyLength": 0})
    assert listed["tasks"][0]["status"] == got["status"]
    await raw.call(JSONRPC, "CancelTask", {"id": waiting["id"]})


@pytest.mark.req("H05")
async def test_another_principal_sees_nothing_and_is_answered_as_for_an_unknown_id(
    shared_stack: Stack, raw: Raw, connect: Callable[..., Raw], binding: str
) -> None:
    (task_id,) = await made(raw, f"foreign-{binding}", 1)
    stranger = connect(shared_stack, await stranger_token(shared_stack))
    unknown = "task-00000000000070008000000000000000"

    async def answer(operation: str, params: dict[str, Any]) -> str:
        try:
            return str(await stranger.call(binding, operation, params))
        except Exception as problem:
            return str(getattr(problem, "args", problem))

    for operation, params in (
        ("GetTask", {"id": "{}"}),
        ("CancelTask", {"id": "{}"}),
        ("SubscribeToTask", {"id": "{}"}),
        ("SendMessage", send(script(taskId="{}"))),
        ("GetTaskPushNotificationConfig", {"taskId": "{}", "id": "one"}),
        ("ListTaskPushNotificationConfigs", {"taskId": "{}"}),
        ("CreateTaskPushNotificationConfig", {"taskId": "{}", "url": "http://127.0.0.1:9/"}),
        ("DeleteTaskPushNotificationConfig", {"taskId": "{}", "id": "one"}),
    ):
        answers = [await answer(operation, put(params, "{}", one)) for one in (task_id, unknown)]
        assert answers[0] == answers[1]
        assert "result" not in answers[0]
    page = await stranger.call(binding, "ListTasks", {"contextId": f"foreign-{binding}"})
    assert page.get("tasks", []) == []


@pytest.mark.req("H05")
async def test_a_token_without_the_scope_is_refused_and_may_do_the_rest(
    shared_stack: Stack, connect: Callable[..., Raw], binding: str
) -> None:
    reader = connect(shared_stack, await stranger_token(shared_stack, "task:read"))
    with pytest.raises(Problem) as caught:
        await reader.call(binding, "SendMessage", send(script()))
    assert caught.value.reason == "PERMISSION_DENIED"
    assert caught.value.code in (-32603, 403, "PERMISSION_DENIED")
    assert (await reader.call(binding, "ListTasks")).get("tasks", []) == []


def put(value: Any, old: str, new: str) -> Any:
    """The value with one string in place of another, wherever it is."""
    if isinstance(value, dict):
        return {key: put(member, old, new) for key, member in value.items()}
    if isinstance(value, list):
        return [put(member, old, new) for member in value]
    return new if value == old else value


async def stranger_token(stack: Stack, *scopes: str) -> str:
    """The token of a principal that has nothing of the owner's."""
    scopes = scopes or ("task:create", "task:read", "task:control", "task:input", "webhook:manage")
    command = [sys.executable, "-m", "aiosd.ctl", "token", "create", "--principal", "stranger"]
    command += [word for scope in scopes for word in ("--scope", scope)]
    command += ["--socket", str(stack.socket), "--state-dir", str(stack.state_dir), "-o", "json"]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False, timeout=30
    )
    if "No such command" in done.stderr:
        pytest.skip("this version has no tokens of other principals")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])
