"""Every AIOS method, as the table has them, for callers who may not (H05, S-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.aios.methods import METHODS
from tests.support.http import http_client
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack

TASK = {"task_id": "task-none"}
#: Well-formed parameters of the methods that must have some.
PARAMS: dict[str, dict[str, Any]] = {
    "aios/task.create": {"capability_id": "lab.script"},
    "aios/task.get": TASK,
    "aios/task.cancel": TASK,
    "aios/task.pause": TASK,
    "aios/task.resume": TASK,
    "aios/task.input": {**TASK, "input": {"a": 1}},
    "aios/task.authenticate": {**TASK, "auth_response": {"type": "api_key", "api_key": "k"}},
    "aios/task.subscribe": TASK,
    "aios/task.resubscribe": TASK,
    "aios/task.unsubscribe": {"subscription_id": "sub-none"},
    "aios/task.subscribe_webhook": {
        **TASK,
        "webhook_url": "https://receiver.example/hook",
        "events": ["completed"],
    },
    "aios/task.unsubscribe_webhook": {**TASK, "webhook_url": "https://receiver.example/hook"},
    "aios/artifact.get": {"artifact_id": "art-none"},
    "aios/artifact.list": TASK,
    "aios/permission.request": {"capability_id": "lab.script", "permissions": [{"level": "low"}]},
    "aios/permission.revoke": {"token_id": "grant-none"},
    "aios/capability.info": {"capability_id": "lab.script"},
    "aios/capability.invoke": {"capability_id": "lab.script", "arguments": {}},
    "aios/capability.status": TASK,
    "aios/capability.cancel": TASK,
}
#: They speak of the service or of the caller's own session, not of tasks.
OPEN_TO_ALL = ("aios/initialize", "aios/ping", "aios/shutdown", "aios/session.", "rpc.discover")


@pytest.fixture
async def narrow(stack: Stack) -> AsyncIterator[AiosClient]:
    """Somebody whose token is good for nothing that these methods do."""
    client = AiosClient(stack.http, stack.make_token("trust.eve", "audit:read"))
    yield client
    await client.close()


@pytest.mark.req("S-12", "S-10", "H05", "R019")
@pytest.mark.parametrize("method", sorted(METHODS))
async def test_no_token_and_a_bad_one_are_answered_alike(stack: Stack, method: str) -> None:

    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": PARAMS.get(method, {})}
    async with http_client(base_url=stack.http) as anybody:
        none = await anybody.post("/aios/rpc", json=body)
        bad = await anybody.post(
            "/aios/rpc", json=body, headers={"authorization": f"Bearer aios_{'x' * 43}"}
        )
    assert none.status_code == bad.status_code == 401
    assert method not in none.text + bad.text


@pytest.mark.req("S-07", "H05", "R105")
@pytest.mark.parametrize(
    "method", [one for one in sorted(METHODS) if not one.startswith(OPEN_TO_ALL)]
)
async def test_without_the_scope_every_method_is_denied(narrow: AiosClient, method: str) -> None:
    error = await narrow.refused(method, **PARAMS.get(method, {}))
    assert (error.code, error.data["error_id"]) == (-32001, "AIOS-PERM-DENIED"), error
