"""On every HTTP wire, what is another's is answered like what never was (S-18, H05).

Both ids are of the same form, and the foreign one is real: its owner finds everything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from gateway.openapi.routes import ROUTES
from tests.trust.rpcs import belongings
from tests.wire_a2a.raw import BINDINGS, Problem, Raw
from tests.wire_a2a.said import send, text
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.req("R019", "R087", "S-18", "H05"),
]
SCOPES = ("task:create", "task:read", "task:control", "task:input", "webhook:manage")
#: What differs from one answer to the next, whatever it is about.
VARYING = re.compile(r'"(timestamp|trace_id|request_id|requestId)": ?("[^"]*"|\d+)')
HOOK = "http://127.0.0.1:9/hook"
PING = {"jsonrpc": "2.0", "id": 1, "method": "aios/ping"}

AIOS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("aios/task.get", {}, ("task_id",)),
    ("aios/task.get", {"include_history": True}, ("task_id",)),
    ("aios/task.cancel", {}, ("task_id",)),
    ("aios/task.pause", {}, ("task_id",)),
    ("aios/task.resume", {}, ("task_id",)),
    ("aios/task.input", {"input": {"a": 1}}, ("task_id",)),
    (
        "aios/task.authenticate",
        {"auth_response": {"type": "api_key", "api_key": "k-1234567"}},
        ("task_id",),
    ),
    (
        "aios/task.authenticate",
        {"auth_response": {"type": "approval", "decision": "approve"}},
        ("task_id",),
    ),
    ("aios/task.subscribe", {}, ("task_id",)),
    ("aios/task.resubscribe", {"last_event_id": "evt-001"}, ("task_id",)),
    ("aios/task.unsubscribe", {}, ("subscription_id",)),
    ("aios/task.subscribe_webhook", {"webhook_url": HOOK, "events": ["completed"]}, ("task_id",)),
    ("aios/task.unsubscribe_webhook", {"webhook_url": HOOK}, ("task_id",)),
    ("aios/artifact.get", {}, ("artifact_id",)),
    ("aios/artifact.get", {}, ("artifact_id", "task_id")),
    ("aios/artifact.list", {}, ("task_id",)),
    ("aios/capability.status", {}, ("task_id",)),
    ("aios/capability.cancel", {}, ("task_id",)),
    ("aios/permission.revoke", {}, ("grant_id",)),
]
A2A: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("GetTask", {"id": "task_id"}, {}),
    ("CancelTask", {"id": "task_id"}, {}),
    ("SubscribeToTask", {"id": "task_id"}, {}),
    ("CreateTaskPushNotificationConfig", {"taskId": "task_id"}, {"url": HOOK}),
    ("GetTaskPushNotificationConfig", {"taskId": "task_id", "id": "webhook_id"}, {}),
    ("ListTaskPushNotificationConfigs", {"taskId": "task_id"}, {}),
    ("DeleteTaskPushNotificationConfig", {"taskId": "task_id", "id": "webhook_id"}, {}),
    ("SendMessage", {"taskId": "task_id"}, {}),
    ("SendStreamingMessage", {"taskId": "task_id"}, {}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ids(shared_stack: Stack) -> dict[str, str]:
    """One of everything, all of carol's."""
    token = shared_stack.make_token("carol", *SCOPES)
    return await belongings(f"unix:{shared_stack.socket}", shared_stack.state_dir, token)


@pytest.fixture(scope="module")
def never(ids: dict[str, str]) -> dict[str, str]:
    return {name: f"{value.partition('-')[0]}-{'0' * 32}" for name, value in ids.items()}


@pytest.fixture(scope="module")
def dave_token(shared_stack: Stack) -> str:
    return shared_stack.make_token("dave", *SCOPES)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dave(shared_stack: Stack, dave_token: str) -> AsyncIterator[AiosClient]:
    client = AiosClient(shared_stack.http, dave_token)
    yield client
    await client.close()


def alike(answer: str, ids: dict[str, str]) -> str:
    """The answer without what varies, and without the ids that were asked about."""
    for name, value in ids.items():
        answer = answer.replace(value, f"<{name}>") if len(value) > 8 else answer
    return VARYING.sub("", answer)


async def aios_answer(
    client: AiosClient, method: str, params: dict[str, Any], ids: dict[str, str]
) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await client.http.post("/aios/rpc", json=body)
    return alike(f"{answer.status_code} {answer.text}", ids)


def named(ids: dict[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """This wire calls a grant a token."""
    return {name.replace("grant_id", "token_id"): ids[name] for name in names}


@pytest.mark.parametrize(("method", "params", "names"), AIOS)
async def test_on_the_aios_wire(
    dave: AiosClient,
    ids: dict[str, str],
    never: dict[str, str],
    method: str,
    params: dict[str, Any],
    names: tuple[str, ...],
) -> None:
    foreign = await aios_answer(dave, method, params | named(ids, names), ids)
    unknown = await aios_answer(dave, method, params | named(never, names), never)
    assert foreign == unknown
    assert '"error":' in foreign
    assert "PERM-DENIED" not in foreign
    assert "-32602" not in foreign or "_not_found" in foreign


async def test_an_artifact_is_absent_beneath_ones_own_task(
    dave: AiosClient, ids: dict[str, str], never: dict[str, str]
) -> None:
    own = {"task_id": await dave.create()}
    foreign, unknown = [
        await aios_answer(dave, "aios/artifact.get", {"artifact_id": one["artifact_id"]} | own, one)
        for one in (ids, never)
    ]
    assert foreign == unknown
    assert "Artifact not found" in foreign


async def test_a_stream_and_a_session_of_the_aios_wire(
    dave: AiosClient, ids: dict[str, str], never: dict[str, str]
) -> None:
    streams, sessions = [], []
    for one in (ids, never):
        answer = await dave.http.get(
            f"/aios/events?subscription_id={one['subscription_id']}",
            headers={"accept": "text/event-stream"},
        )
        streams.append((answer.status_code, alike(answer.text, one)))
        session = {"aios-session-id": one["session_id"]}
        answer = await dave.http.post("/aios/rpc", json=PING, headers=session)
        ended = await dave.http.delete("/aios/rpc", headers=session)
        sessions.append((alike(answer.text, one), ended.status_code, alike(ended.text, one)))
    assert streams[0] == streams[1]
    assert streams[0][0] == 404
    assert sessions[0] == sessions[1]
    assert sessions[0][1] == 404


@pytest.mark.parametrize(
    "route",
    [one for one in ROUTES if re.search(r"{(task|operation)_id}", one.path)],
    ids=lambda route: route.name,
)
async def test_on_the_openapi_wire(
    dave: AiosClient, ids: dict[str, str], never: dict[str, str], route: Any
) -> None:
    bodies = {
        "continueTask": {"input": {"a": 1}},
        "resolveTask": {"outcome": "failed", "evidence": "seen"},
    }
    found = []
    for one in (ids, never):
        body = bodies.get(route.name, {}) if route.method == "POST" else None
        answer = await dave.http.request(route.method, route.path.format(**one), json=body)
        found.append((answer.status_code, alike(answer.text, one)))
    assert found[0] == found[1]
    assert found[0][0] == 404


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(("operation", "names", "more"), A2A)
async def test_on_a2a(
    shared_stack: Stack,
    dave_token: str,
    ids: dict[str, str],
    never: dict[str, str],
    binding: str,
    operation: str,
    names: dict[str, str],
    more: dict[str, str],
) -> None:
    raw = Raw(shared_stack, dave_token)
    found = []
    for one in (ids, never):
        params: dict[str, Any] = {name: one[value] for name, value in names.items()}
        if operation.startswith("Send"):
            params = send(text("more", **params))
        with pytest.raises(Problem) as refused:
            await raw.call(binding, operation, params | more)
        said = refused.value
        found.append((said.code, said.reason, alike(said.message, one)))
    await raw.close()
    assert found[0] == found[1]
    assert found[0][1] == "TASK_NOT_FOUND"


async def test_their_owner_finds_all_of_it(shared_stack: Stack, ids: dict[str, str]) -> None:
    """So the ids above were of something, and nobody had touched it."""
    token = shared_stack.make_token("carol", *SCOPES)
    carol, raw = AiosClient(shared_stack.http, token), Raw(shared_stack, token)
    try:
        assert await carol.status(ids["task_id"]) == "input_required"
        await carol.call("aios/artifact.get", artifact_id=ids["artifact_id"])
        session = {"aios-session-id": ids["session_id"]}
        answer = await carol.http.post("/aios/rpc", json=PING, headers=session)
        assert "result" in answer.json()
        answer = await carol.http.get(f"/api/v1/operations/{ids['operation_id']}")
        assert answer.status_code == 200
        listed = {"taskId": ids["task_id"]}
        configs = await raw.call("JSONRPC", "ListTaskPushNotificationConfigs", listed)
        assert configs is not None
        url = f"/aios/events?subscription_id={ids['subscription_id']}"
        async with carol.stream(url):
            pass
        await carol.call("aios/task.unsubscribe", subscription_id=ids["subscription_id"])
        await carol.call("aios/permission.revoke", token_id=ids["grant_id"])
        await carol.call("aios/task.cancel", task_id=ids["task_id"])
    finally:
        await raw.close()
        await carol.close()
