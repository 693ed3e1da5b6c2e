"""What one caller has, another does not see, and cannot tell from what never was (S-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack

SCOPES = ("task:create", "task:read", "task:control", "task:input", "webhook:manage")


@pytest.fixture
async def bob(shared_stack: Stack) -> AsyncIterator[AiosClient]:
    client = AiosClient(shared_stack.http, shared_stack.make_token("aios.bob", *SCOPES))
    yield client
    await client.close()


@pytest.mark.req("R019", "R018", "S-18", "X47")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("aios/task.get", {}),
        ("aios/task.cancel", {}),
        ("aios/task.pause", {}),
        ("aios/task.resume", {}),
        ("aios/task.input", {"input": {"choice": "a"}}),
        ("aios/task.authenticate", {"auth_response": {"type": "api_key", "api_key": "k-12345"}}),
        ("aios/task.subscribe", {}),
        ("aios/task.resubscribe", {"last_event_id": "evt-001"}),
        ("aios/artifact.list", {}),
        ("aios/capability.status", {}),
        ("aios/capability.cancel", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_anothers_task_is_like_one_that_never_was(
    aios: AiosClient, bob: AiosClient, method: str, params: dict[str, Any]
) -> None:
    task_id = await aios.create({"ask": {"prompt": "?"}})
    before = await aios.until(task_id, "input_required")
    foreign = await bob.refused(method, task_id=task_id, **params)
    unknown = await bob.refused(method, task_id="task-none", **params)
    assert foreign.brief == unknown.brief == (-32106, "Task not found")
    varying = {"timestamp", "trace_id"}
    assert {name: foreign.data[name] for name in foreign.data.keys() - varying} == {
        name: unknown.data[name] for name in unknown.data.keys() - varying
    }
    assert await aios.get(task_id) == before


@pytest.mark.req("R087", "S-18")
async def test_anothers_artifact_is_not_readable(aios: AiosClient, bob: AiosClient) -> None:
    task_id = await aios.create(
        {"artifact": {"name": "mine", "parts": [{"type": "text", "text": "secret"}]}}
    )
    await aios.ended(task_id)
    (artifact,) = (await aios.get(task_id))["artifacts"]
    for params in ({}, {"task_id": task_id}):
        error = await bob.refused("aios/artifact.get", artifact_id=artifact["id"], **params)
        assert (error.code, error.message) == (-32110, "Artifact not found")


@pytest.mark.req("R019", "S-18")
async def test_lists_and_totals_know_only_ones_own(aios: AiosClient, bob: AiosClient) -> None:
    await aios.ended(await aios.create())
    before = (await bob.call("aios/task.list"))["total"]
    mine = await bob.create()
    await bob.ended(mine)
    listed = await bob.call("aios/task.list", pagination={"limit": 200})
    assert listed["total"] == before + 1
    assert listed["tasks"][0]["task_id"] == mine
    past = await bob.call("aios/task.history", pagination={"limit": 200})
    assert past["total"] == before + 1
    error = await aios.refused("aios/task.get", task_id=mine)
    assert error.code == -32106


@pytest.mark.req("S-18", "H17", "R072")
async def test_anothers_subscription_has_no_stream_and_no_end(
    aios: AiosClient, bob: AiosClient
) -> None:
    task_id = await aios.create({"ask": {"prompt": "?"}})
    await aios.until(task_id, "input_required")
    url = await aios.follow(task_id)
    headers = {"accept": "text/event-stream"}
    assert (await bob.http.get(url, headers=headers)).status_code == 404
    subscription_id = url.partition("=")[2]
    error = await bob.refused("aios/task.unsubscribe", subscription_id=subscription_id)
    assert error.code == -32111
    async with aios.stream(url) as events:
        assert (await anext(events)).id == "evt-001"


@pytest.mark.req("S-07", "R105")
async def test_a_token_may_do_only_what_its_scopes_say(shared_stack: Stack) -> None:
    reader = AiosClient(shared_stack.http, shared_stack.make_token("aios.reader", "task:read"))
    error = await reader.refused(
        "aios/task.create", capability_id="lab.script", options={"async": True}
    )
    assert (error.code, error.data["error_id"]) == (-32001, "AIOS-PERM-DENIED")
    assert (await reader.call("aios/task.list"))["total"] == 0
    await reader.close()
