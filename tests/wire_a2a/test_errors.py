"""The error table, row by row on every binding (a2a.md 5.4)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_a2a.raw import GRPC, JSONRPC, OPERATIONS, REST, Problem
from tests.wire_a2a.said import script, send, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack
    from tests.wire_a2a.raw import Raw

CODES = {
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
    "INVALID_PARAMS": (-32602, 400, "INVALID_ARGUMENT"),
}
UNKNOWN = "task-00000000000070008000000000000000"


def check(problem: Problem, reason: str) -> None:
    """The code of a reason on the binding that the problem came from."""
    assert problem.reason == reason, problem.raw
    of_binding = dict(zip((JSONRPC, REST, GRPC), CODES[reason], strict=True))
    assert problem.code == of_binding[problem.binding]


async def refused(raw: Raw, binding: str, operation: str, params: dict[str, Any]) -> Problem:
    with pytest.raises(Problem) as caught:
        await raw.call(binding, operation, params)
    return caught.value


async def ended(raw: Raw, *steps: dict[str, Any]) -> str:
    """The id of a task that has completed."""
    answer = await raw.call(JSONRPC, "SendMessage", send(script(*steps)))
    return str(answer["task"]["id"])


@pytest.mark.parametrize("operation", ["GetTask", "CancelTask", "SubscribeToTask"])
async def test_an_unknown_task_is_not_found(raw: Raw, binding: str, operation: str) -> None:
    check(await refused(raw, binding, operation, {"id": UNKNOWN}), "TASK_NOT_FOUND")


@pytest.mark.req("R173")
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_a_client_cannot_choose_the_id_of_a_task(
    raw: Raw, binding: str, operation: str
) -> None:
    params = send(text("x", taskId=UNKNOWN))
    check(await refused(raw, binding, operation, params), "TASK_NOT_FOUND")
    check(await refused(raw, binding, "GetTask", {"id": UNKNOWN}), "TASK_NOT_FOUND")


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("CreateTaskPushNotificationConfig", {"taskId": UNKNOWN, "url": "http://127.0.0.1:9/"}),
        ("GetTaskPushNotificationConfig", {"taskId": UNKNOWN, "id": "one"}),
        ("ListTaskPushNotificationConfigs", {"taskId": UNKNOWN}),
        ("DeleteTaskPushNotificationConfig", {"taskId": UNKNOWN, "id": "one"}),
    ],
)
async def test_push_configurations_of_an_unknown_task_are_not_found(
    raw: Raw, binding: str, operation: str, params: dict[str, Any]
) -> None:
    check(await refused(raw, binding, operation, params), "TASK_NOT_FOUND")


@pytest.mark.req("R178", "Z42")
async def test_a_terminal_task_cannot_be_canceled(raw: Raw, binding: str) -> None:
    task_id = await ended(raw)
    problem = await refused(raw, binding, "CancelTask", {"id": task_id})
    check(problem, "TASK_NOT_CANCELABLE")


async def test_a_canceled_task_cannot_be_canceled_again(raw: Raw, binding: str) -> None:
    params = send(script({"sleep_ms": 60_000}), returnImmediately=True)
    task = (await raw.call(binding, "SendMessage", params))["task"]
    canceled = await raw.call(binding, "CancelTask", {"id": task["id"]})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    problem = await refused(raw, binding, "CancelTask", {"id": task["id"]})
    check(problem, "TASK_NOT_CANCELABLE")


@pytest.mark.req("R192", "Z27")
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_a_message_to_a_terminal_task_is_refused(
    raw: Raw, binding: str, operation: str
) -> None:
    task_id = await ended(raw)
    params = send(text("more", taskId=task_id))
    check(await refused(raw, binding, operation, params), "UNSUPPORTED_OPERATION")


async def test_a_terminal_task_cannot_be_subscribed_to(raw: Raw, binding: str) -> None:
    task_id = await ended(raw)
    problem = await refused(raw, binding, "SubscribeToTask", {"id": task_id})
    check(problem, "UNSUPPORTED_OPERATION")


@pytest.mark.req("S-41", "Y09")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "version", [None, "", "0.3", "0.3.0", "1.1", "2.0", "1", "one", "1.0, 0.3"]
)
async def test_another_version_is_refused_on_every_operation(
    shared_stack: Stack,
    connect: Callable[..., Raw],
    binding: str,
    operation: str,
    version: str | None,
) -> None:
    params = {"taskId": UNKNOWN, "id": UNKNOWN} if "Task" in operation else {}
    if operation in ("GetTask", "CancelTask", "SubscribeToTask"):
        params = {"id": UNKNOWN}
    elif operation in ("ListTasks", "GetExtendedAgentCard"):
        params = {}
    elif "Message" in operation:
        params = send(text("x"))
    elif operation.startswith("List"):
        params = {"taskId": UNKNOWN}
    problem = await refused(connect(shared_stack, version=version), binding, operation, params)
    check(problem, "VERSION_NOT_SUPPORTED")


@pytest.mark.req("S-41")
@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1.0.7"])
async def test_a_patch_of_the_version_does_not_matter(
    shared_stack: Stack, connect: Callable[..., Raw], binding: str, version: str
) -> None:
    answer = await connect(shared_stack, version=version).call(binding, "ListTasks")
    assert set(answer) >= {"pageSize"}


@pytest.mark.req("S-41")
async def test_the_version_may_be_a_query_parameter(
    shared_stack: Stack, connect: Callable[..., Raw]
) -> None:
    raw = connect(shared_stack, version=None)
    headers = {"authorization": f"Bearer {raw.token}"}
    for value, status in (("1.0", 200), ("0.3", 400)):
        url = f"{raw.url}/tasks?A2A-Version={value}"
        assert (await raw.http.get(url, headers=headers)).status_code == status
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}
    answer = await raw.post(body, path="?A2A-Version=1.0")
    assert "result" in answer.json()


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_bad_token_and_none_are_refused_with_a_challenge(
    shared_stack: Stack, connect: Callable[..., Raw], binding: str, operation: str
) -> None:
    for token in ("", "aios_" + secrets.token_urlsafe(32)):
        raw = connect(shared_stack, token=token)
        if binding == GRPC:
            problem = await refused(raw, binding, operation, {})
            assert problem.code == "UNAUTHENTICATED"
            continue
        # The failures of one peer are limited, so that both answers may be seen here.
        if binding == JSONRPC:
            response = await raw.post({"jsonrpc": "2.0", "id": 1, "method": operation})
        else:
            response = await raw.http.send(raw._rest(operation, {"taskId": "t", "id": "i"}, None))
        assert response.status_code in (401, 429)
        if response.status_code == 401:
            assert response.headers["www-authenticate"].startswith("Bearer")
        assert "details" in response.json()["error"]


@pytest.mark.parametrize(
    ("operation", "params", "field"),
    [
        ("GetTask", {"id": UNKNOWN, "historyLength": -1}, "historyLength"),
        ("ListTasks", {"pageSize": 0}, "pageSize"),
        ("ListTasks", {"pageSize": 101}, "pageSize"),
        ("ListTasks", {"pageSize": -5}, "pageSize"),
        ("ListTasks", {"historyLength": -1}, "historyLength"),
        ("ListTasks", {"pageToken": "garbage"}, "pageToken"),
        ("ListTasks", {"pageToken": "WzEsMl0="}, "pageToken"),
        ("SendMessage", send(text("x"), tenant=""), "tenant"),
        ("SendMessage", send(text("x"), historyLength=-1), "historyLength"),
        ("SendMessage", send(text("x", contextId="c" * 129)), "message.contextId"),
        ("SendMessage", send({"messageId": "m", "role": "ROLE_USER"}), "message.parts"),
        (
            "SendMessage",
            send({"role": "ROLE_USER", "parts": [{"text": "x"}]}),
            "message.message_id",
        ),
        ("SendMessage", {"tenant": "lab.script"}, "message"),
        ("SendMessage", send(text("x", role="ROLE_AGENT")), "message.role"),
        ("SendMessage", send(text("Bearer abcdefghijklmnop")), "message.parts"),
        ("SendMessage", send(script({"unknown": 1})), "message.parts"),
    ],
)
async def test_an_invalid_parameter_is_named(
    raw: Raw, binding: str, operation: str, params: dict[str, Any], field: str
) -> None:
    problem = await refused(raw, binding, operation, params)
    check(problem, "INVALID_PARAMS")
    assert any(name.startswith(field) or field in name for name in problem.fields), problem


async def test_an_unknown_tenant_is_like_an_unknown_task(raw: Raw, binding: str) -> None:
    for operation, params in (
        ("SendMessage", send(text("x"), tenant="no.such.thing")),
        ("GetTask", {"tenant": "no.such.thing", "id": UNKNOWN}),
        ("ListTasks", {"tenant": "no.such.thing"}),
    ):
        check(await refused(raw, binding, operation, params), "TASK_NOT_FOUND")


async def test_a_task_is_not_there_under_another_tenant(raw: Raw, binding: str) -> None:
    task_id = await ended(raw)
    params = {"tenant": "lab.other.script", "id": task_id}
    check(await refused(raw, binding, "GetTask", params), "TASK_NOT_FOUND")
    params = {"tenant": "lab.script", "id": task_id}
    assert (await raw.call(binding, "GetTask", params))["id"] == task_id


@pytest.mark.parametrize("operation", ["SendStreamingMessage", "SubscribeToTask"])
async def test_what_is_known_before_the_first_item_is_a_plain_error(
    raw: Raw, operation: str
) -> None:
    params = {"id": UNKNOWN} if operation == "SubscribeToTask" else send(text("x", taskId=UNKNOWN))
    answer = await raw.post({"jsonrpc": "2.0", "id": "a", "method": operation, "params": params})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["id"] == "a"
    response = await raw.http.send(raw._rest(operation, dict(params), None))
    assert response.status_code == 404
