"""The five levels on a whole service: asked, answered, refused, remembered (X35, X36)."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.ctl.access_calls import create_token
from aiosd.sdk import connect
from tests.support.stack import Stack
from tests.wire_aios.client import AiosClient, WireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

APPROVE = {"type": "approval", "decision": "approve"}
DENY = {"type": "approval", "decision": "deny"}
PROGRAM = ("task:create", "task:read", "task:control", "task:input")


@pytest.fixture(scope="module")
def strict() -> Iterator[Stack]:
    """A service with a policy of its own, where nobody answers for long."""
    with (
        TemporaryDirectory(prefix="aiosd-") as directory,
        Stack(
            Path(directory),
            approval_timeout_ms=1_200,
            permissions__auto_grant=["aios.permission.lab.script.*"],
            permissions__always_deny=["*.script.medium"],
        ) as up,
    ):
        yield up


@pytest.fixture
async def strict_aios(strict: Stack) -> AsyncIterator[AiosClient]:
    client = AiosClient(strict.http, strict.token)
    yield client
    await client.close()


@asynccontextmanager
async def as_person(stack: Stack) -> AsyncIterator[AiosClient]:
    token = (stack.state_dir / "approver-token").read_text().strip()
    client = AiosClient(stack.http, token)
    try:
        yield client
    finally:
        await client.http.aclose()


@pytest.fixture
async def person(stack: Stack) -> AsyncIterator[AiosClient]:
    async with as_person(stack) as client:
        yield client


@asynccontextmanager
async def caller(stack: Stack, principal: str, *scopes: str) -> AsyncIterator[AiosClient]:
    """Somebody with a token of their own, made by the person."""
    text = (stack.state_dir / "approver-token").read_text().strip()
    async with connect(f"unix:{stack.socket}", text) as owner:
        token = (await create_token(owner, principal, scopes, 0)).secret
    client = AiosClient(stack.http, token)
    try:
        yield client
    finally:
        await client.close()


async def ask(aios: AiosClient, level: str, **arguments: Any) -> str:
    """A task of that level which waits for an approval."""
    capability = f"lab.script.{level}"
    task_id = await aios.create(capability_id=capability, arguments=arguments)
    await aios.until(task_id, "auth_required")
    return task_id


async def answer(person: AiosClient, task_id: str, given: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = await person.call(
        "aios/task.authenticate", task_id=task_id, auth_response=given
    )
    return found


@pytest.mark.req("R114", "R115")
async def test_public_runs_and_every_capability_says_its_level(aios: AiosClient) -> None:
    task_id = await aios.create()
    assert (await aios.ended(task_id))["status"] == "completed"
    for level in ("low", "medium", "high", "critical"):
        info = await aios.call("aios/capability.info", capability_id=f"lab.script.{level}")
        assert info["permission"]["level"] == level


@pytest.mark.req("R116", "R122", "X36", "R137")
@pytest.mark.parametrize("level", ["low", "medium"])
async def test_low_and_medium_ask_once_and_the_grant_can_be_taken_back(
    stack: Stack, person: AiosClient, level: str
) -> None:
    async with caller(stack, f"ann-{level}", *PROGRAM) as ann:
        task_id = await ask(ann, level)
        asked = (await ann.get(task_id))["auth_request"]
        assert asked["type"] == "approval"
        assert asked["permission_level"] == level
        assert asked["confirmations_required"] == 1
        await answer(person, task_id, APPROVE)
        assert (await ann.ended(task_id))["status"] == "completed"
        second = await ann.create(capability_id=f"lab.script.{level}", arguments={})
        done = await ann.ended(second)
        assert done["status"] == "completed"
        (held,) = (await ann.call("aios/permission.list"))["permissions"]
        assert held["permission_id"] == f"aios.permission.lab.script.{level}"
        revoked = await ann.call("aios/permission.revoke", token_id=held["token_id"])
        assert revoked == {"success": True, "revoked_count": 1}
        third = await ask(ann, level)
        await answer(person, third, DENY)


@pytest.mark.req("R117", "R121")
async def test_high_asks_at_every_use(aios: AiosClient, person: AiosClient) -> None:
    for _ in range(2):
        task_id = await ask(aios, "high")
        await answer(person, task_id, APPROVE)
        assert (await aios.ended(task_id))["status"] == "completed"


@pytest.mark.req("R118", "X35")
async def test_critical_takes_two_answers_and_the_second_carries_the_id_of_the_first(
    aios: AiosClient, person: AiosClient
) -> None:
    task_id = await ask(aios, "critical")
    first = await answer(person, task_id, APPROVE)
    assert first["status"] == "auth_required"
    assert (first["confirmations"], first["confirmations_required"]) == (1, 2)
    for wrong in ({}, {"confirmation_id": "confirm-guessed"}):
        with pytest.raises(WireError) as refused:
            await answer(person, task_id, APPROVE | wrong)
        assert refused.value.code == -32001
    assert await aios.status(task_id) == "auth_required"
    second = await answer(person, task_id, APPROVE | {"confirmation_id": first["confirmation_id"]})
    assert second["status"] == "working"
    assert (await aios.ended(task_id))["status"] == "completed"


@pytest.mark.req("R121", "X35", "R120")
async def test_what_was_declined_failed_and_never_ran(
    aios: AiosClient, person: AiosClient, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    task_id = await ask(aios, "high", steps=[{"touch": str(mark)}])
    await answer(person, task_id, DENY)
    failed = await aios.ended(task_id)
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == -32001
    assert failed["error"]["data"]["reason"] == "user_declined"
    assert not mark.exists()


@pytest.mark.req("R121", "R184", "X04")
@pytest.mark.slow
async def test_what_nobody_answers_fails_with_a_timeout(
    strict: Stack, strict_aios: AiosClient
) -> None:
    aios = strict_aios
    task_id = await ask(aios, "high")
    failed = await aios.ended(task_id)
    assert failed["error"]["code"] == -32005
    data = failed["error"]["data"]
    assert (data["reason"], data["waiting_for"]) == ("wait_expired", "approval")
    async with as_person(strict) as person:
        with pytest.raises(WireError):
            await answer(person, task_id, APPROVE)


@pytest.mark.req("R119", "R120", "X36")
async def test_the_policy_grants_low_denies_first_and_never_grants_high(
    strict_aios: AiosClient,
) -> None:
    aios = strict_aios
    low = await aios.create(capability_id="lab.script.low", arguments={})
    assert (await aios.ended(low))["status"] == "completed"
    medium = await aios.create(capability_id="lab.script.medium", arguments={})
    denied = await aios.ended(medium)
    assert denied["error"]["code"] == -32001
    assert denied["error"]["data"]["reason"] == "policy_denied"
    await ask(aios, "high")
    await ask(aios, "critical")


@pytest.mark.req("R123", "R184")
async def test_no_credential_approves_what_it_asked_for(stack: Stack) -> None:
    async with (
        caller(stack, "root", "admin:*") as root,
        caller(stack, "root", "admin:*") as second,
        caller(stack, "agent", *PROGRAM) as agent,
    ):
        task_id = await ask(root, "high")
        with pytest.raises(WireError) as own:
            await answer(root, task_id, APPROVE)
        assert own.value.code == -32001
        with pytest.raises(WireError) as foreign:
            await answer(agent, task_id, APPROVE)
        assert foreign.value.code == -32106
        await answer(second, task_id, APPROVE)
        assert (await root.ended(task_id))["status"] == "completed"
        mine = await ask(agent, "low")
        with pytest.raises(WireError) as program:
            await answer(agent, mine, APPROVE)
        assert program.value.code == -32001


@pytest.mark.req("R123", "S-08")
async def test_the_program_token_cannot_make_itself_a_person(stack: Stack) -> None:
    from aiosd.sdk import AiosdError

    async with connect(f"unix:{stack.socket}", stack.token) as program:
        for scope in ("permission:approve", "admin:*"):
            with pytest.raises(AiosdError) as refused:
                await create_token(program, "me", [scope], 0)
            assert refused.value.reason == "PERMISSION_DENIED"
        with pytest.raises(AiosdError) as unknown:
            await create_token(program, "me", ["task:everything"], 0)
        assert unknown.value.reason == "ARGUMENT_INVALID"


@pytest.mark.req("R122", "S-08")
async def test_a_token_ends_at_once_when_it_is_revoked_or_late(stack: Stack) -> None:
    from aiosd.ctl.access_calls import list_tokens, revoke_token
    from aiosd.sdk import AiosdError

    async with connect(f"unix:{stack.socket}") as owner:
        made = await create_token(owner, "carl", ["task:read"], 0)
        short = await create_token(owner, "carl", ["task:read"], 1)
        async with connect(f"unix:{stack.socket}", made.secret) as carl:
            await carl.list()
            (seen,) = [
                one for one in await list_tokens(owner) if one.token_id == made.token.token_id
            ]
            assert seen.HasField("last_use_time")
            await revoke_token(owner, made.token.token_id)
            with pytest.raises(AiosdError) as revoked:
                await carl.list()
        async with connect(f"unix:{stack.socket}", short.secret) as late:
            with pytest.raises(AiosdError) as expired:
                await late.list()
    assert revoked.value.reason == expired.value.reason == "UNAUTHENTICATED"
    assert str(revoked.value) == str(expired.value)
    for secret in (made.secret, short.secret):
        for file in stack.state_dir.glob("aiosd.db*"):
            assert secret.encode() not in file.read_bytes()


@pytest.mark.req("R122", "R137")
async def test_a_permission_asked_for_ahead_is_bound_to_scope_and_use(
    stack: Stack, person: AiosClient
) -> None:
    async with caller(stack, "dora", *PROGRAM) as dora:
        wish = {"level": "high", "scope": "/data/*", "duration": "once", "reason": "to tidy up"}
        asking = asyncio.ensure_future(
            dora.call(
                "aios/permission.request", capability_id="lab.script.high", permissions=[wish]
            )
        )
        listed = await _waiting(stack, "dora")
        await answer(person, listed, APPROVE)
        granted = await asking
        assert granted["granted"] is True
        (token,) = granted["tokens"]
        assert (token["scope"], token["duration"]) == ("/data/*", "once")
        outside = await ask(dora, "high", scope="/etc/passwd")
        await answer(person, outside, DENY)
        inside = await dora.create(
            capability_id="lab.script.high", arguments={"scope": "/data/a.txt"}
        )
        assert (await dora.ended(inside))["status"] == "completed"
        again = await ask(dora, "high", scope="/data/a.txt")
        await answer(person, again, DENY)


@pytest.mark.req("R137", "R121")
async def test_a_declined_request_says_so(stack: Stack, person: AiosClient) -> None:
    async with caller(stack, "emil", *PROGRAM) as emil:
        asking = asyncio.ensure_future(
            emil.call(
                "aios/permission.request",
                capability_id="lab.script.low",
                permissions=[{"level": "low"}],
            )
        )
        await answer(person, await _waiting(stack, "emil"), DENY)
        assert await asking == {"granted": False, "reason": "user_declined"}


async def _waiting(stack: Stack, principal: str) -> str:
    """The task of this principal in the inbox of the person."""
    token = (stack.state_dir / "approver-token").read_text().strip()
    async with connect(f"unix:{stack.socket}", token) as client, asyncio.timeout(20):
        while True:
            page = await client.list(waiting_for_me=True, limit=200)
            for task in page.tasks:
                if task.principal == principal:
                    return str(task.task_id)
            await asyncio.sleep(0.02)


@pytest.mark.req("R137")
async def test_the_audit_has_what_was_asked_and_what_was_answered(
    stack: Stack, person: AiosClient
) -> None:
    from aiosd.api.v1 import audit_service_pb2, audit_service_pb2_grpc

    async with caller(stack, "fred", *PROGRAM) as fred:
        task_id = await ask(fred, "high", scope="/x")
        await answer(person, task_id, DENY)
    async with connect(f"unix:{stack.socket}") as owner:
        stub = audit_service_pb2_grpc.AuditServiceStub(owner.channel)
        page = await stub.ListAuditRecords(
            audit_service_pb2.ListAuditRecordsRequest(task_id=task_id, page_size=200)
        )
    said = {one.event: one for one in page.records}
    asked = json.loads(said["permission.requested"].details)
    assert asked["permissions"] == ["aios.permission.lab.script.high"]
    assert (asked["scope"], asked["for"]) == ("/x", "fred")
    answered = json.loads(said["permission.denied"].details)
    assert (answered["answer"], answered["answered_with"]) == ("deny", "approver")
    assert said["permission.denied"].principal.startswith("uid:")


@pytest.mark.req("R116", "R117", "I01")
async def test_an_approval_survives_kill(own_stack: Stack, tmp_path: Path) -> None:
    aios = AiosClient(own_stack.http, own_stack.token)
    task_id = await ask(aios, "high", steps=[{"touch": str(tmp_path / "ran")}])
    own_stack.kill("daemon")
    assert await aios.status(task_id) == "auth_required"
    async with as_person(own_stack) as person:
        await answer(person, task_id, APPROVE)
    assert (await aios.ended(task_id))["status"] == "completed"
    assert len((tmp_path / "ran").read_text().splitlines()) == 1
    await aios.close()
