"""The isolation matrix over every RPC, made from the service descriptors (R019, R087, H05)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf import message_factory

from aiosd.adapters.rpc.authorization import ANYBODY, SCOPES, scopes_of
from aiosd.adapters.rpc.origins import changes_state
from aiosd.ctl.access_calls import create_token
from aiosd.ctl.trust_calls import list_audit
from aiosd.sdk import connect
from tests.support.programs import Programs
from tests.trust.rpcs import ALL, NAMES, belongings, call, name_of, named, request_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.descriptor import MethodDescriptor

pytestmark = pytest.mark.asyncio(loop_scope="module")
EVERYTHING = (
    *("task:create", "task:read", "task:control", "task:input", "webhook:manage"),
    "provider:attach",
)
#: What only administrators see has no owner; a scope decides alone.
OWNED = (
    *("task_id", "artifact_id", "subscription_id", "session_id", "operation_id"),
    *("webhook_id", "delivery_id", "grant_id"),
)
#: Answered with a list, which is empty for what is not the caller's, or about what is made new.
NO_REFUSAL = ("CreateTask", "RequestPermission", "ListGrants")
#: What ends something, so that it comes last where the owner does everything to his own.
ENDING = ("Cancel", "Close", "Delete", "Revoke")


@dataclass(frozen=True)
class Service:
    """A daemon that also listens on TCP, and what the owner and another have there."""

    socket: str
    tcp: str
    tokens: dict[str, str]
    ids: dict[str, str]
    others: dict[str, str]

    @property
    def never(self) -> dict[str, str]:
        """Ids of the same form that nobody has."""
        return {name: f"{value.partition('-')[0]}-{'0' * 32}" for name, value in self.ids.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[Service]:
    with TemporaryDirectory(prefix="aiosd-") as directory:
        programs = Programs(
            Path(directory),
            grpc_tcp="127.0.0.1:0",
            grpc_insecure_loopback=True,
            webhook_allow=["127.0.0.1/32"],
        )
        try:
            daemon = await programs.daemon()
            await programs.lab()
            tokens = {
                "other": await _token(programs, "bob", *EVERYTHING),
                "wrong": await _token(programs, "eve", "provider:attach:nothing"),
                "reader": await _token(programs, "eve", "audit:read"),
                "bad": "aios_" + "x" * 43,
            }
            ids = await belongings(programs.address, programs.state_dir, "")
            others = await belongings(programs.address, programs.state_dir, tokens["other"])
            yield Service(programs.address, daemon.ready["grpc_tcp"], tokens, ids, others)
        finally:
            await programs.aclose()


async def _token(programs: Programs, principal: str, *scopes: str) -> str:
    async with connect(programs.address) as client:
        return (await create_token(client, principal, scopes, 0)).secret


async def _refusal(
    address: str, method: MethodDescriptor, ids: dict[str, str], token: str
) -> tuple[Any, ...] | None:
    """Code, text and details, to the byte; None if it was no refusal."""
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            await call(channel, method, request_for(method, ids), token)
        except grpc.aio.AioRpcError as error:
            trailers = [one for one in error.trailing_metadata() or () if one[0] != "date"]
            return error.code(), error.details(), sorted(trailers)
    return None


@pytest.mark.req("S-07", "H05")
async def test_every_rpc_has_decided_what_scope_it_asks_for() -> None:
    assert set(SCOPES) == set(NAMES)


@pytest.mark.req("S-09", "S-10", "S-12", "H21", "R019")
@pytest.mark.parametrize("method", ALL, ids=NAMES)
async def test_without_a_valid_token_every_rpc_refuses_with_the_same_words(
    service: Service, method: MethodDescriptor
) -> None:
    # The limit of failures is on TCP; the owner's socket refuses a bad token too.
    bad = await _refusal(service.socket, method, service.ids, service.tokens["bad"])
    assert bad is not None
    assert bad[:2] == (grpc.StatusCode.UNAUTHENTICATED, "a valid credential is required")


@pytest.mark.req("S-07", "R105")
@pytest.mark.parametrize("method", ALL, ids=NAMES)
async def test_a_token_without_the_scope_is_refused_by_every_rpc(
    service: Service, method: MethodDescriptor
) -> None:
    wanted = scopes_of(method)
    name = "wrong" if "audit:read" in wanted else "reader"
    found = await _refusal(service.socket, method, service.ids, service.tokens[name])
    if ANYBODY in wanted:
        assert found is None or found[0] is not grpc.StatusCode.PERMISSION_DENIED
        return
    assert found is not None
    assert found[0] is grpc.StatusCode.PERMISSION_DENIED


MATRIX = [
    one
    for one in ALL
    if set(OWNED) & named(one) and "audit:read" not in scopes_of(one) and one.name not in NO_REFUSAL
]
BENEATH_A_TASK = [
    one
    for one in MATRIX
    if "task_id" in named(one)
    and named(one) & {"artifact_id", "webhook_id"}
    and one.name not in ("CreateWebhook", "DeleteWebhook")
]


@pytest.mark.req("H05")
async def test_the_matrix_has_every_sort_of_thing(service: Service) -> None:
    assert set(OWNED) == set(service.ids) == set(service.others)
    assert set(OWNED) == set().union(*(named(one) for one in MATRIX)) & set(OWNED)
    assert not {*service.ids.values()} & {*service.others.values()} - {"w"}


@pytest.mark.req("R019", "R087", "S-18", "H05")
@pytest.mark.parametrize("method", MATRIX, ids=name_of)
async def test_what_is_anothers_is_answered_like_what_never_was(
    service: Service, method: MethodDescriptor
) -> None:
    token = service.tokens["other"]
    foreign = await _refusal(service.socket, method, service.ids, token)
    unknown = await _refusal(service.socket, method, service.never, token)
    assert foreign == unknown
    assert foreign is not None
    assert foreign[0] is grpc.StatusCode.NOT_FOUND


@pytest.mark.req("R087", "S-18", "H05")
@pytest.mark.parametrize("method", BENEATH_A_TASK, ids=name_of)
async def test_what_is_anothers_is_absent_beneath_ones_own_task_too(
    service: Service, method: MethodDescriptor
) -> None:
    token, own = service.tokens["other"], {"task_id": service.others["task_id"]}
    # The name of a webhook is its owner's choice, so the same one would be the caller's own.
    ids = service.ids | {"webhook_id": "theirs"} | own
    foreign = await _refusal(service.socket, method, ids, token)
    unknown = await _refusal(service.socket, method, service.never | own, token)
    assert foreign == unknown
    assert foreign is not None
    assert foreign[0] is grpc.StatusCode.NOT_FOUND


@pytest.mark.req("R087", "S-18", "H05")
@pytest.mark.parametrize(
    ("method", "name"),
    [
        (one, name)
        for one in ALL
        for name in ("session_id", "capability_id", "instance_id", "context_id")
        if one.name.startswith("List") and name in named(one) and one not in MATRIX
    ],
    ids=lambda one: one if isinstance(one, str) else name_of(one),
)
async def test_lists_are_of_ones_own_whatever_they_are_asked_about(
    service: Service, method: MethodDescriptor, name: str
) -> None:
    wanted = {"capability_id": "lab.script.low", "instance_id": "lab", "context_id": "ctx-none"}
    token = service.tokens["other"]
    async with grpc.aio.insecure_channel(service.socket) as channel:
        foreign, unknown = [
            await call(channel, method, request_for(method, {name: (ids | wanted)[name]}), token)
            for ids in (service.ids, service.never)
        ]
    assert foreign == unknown
    assert not [value for value in service.ids.values() if value != "w" and value in str(foreign)]


@pytest.mark.req("H05", "I03")
@pytest.mark.parametrize("method", ["TaskService.CreateTask", "OperationService.CreateOperation"])
async def test_anothers_idempotency_key_is_not_in_use(service: Service, method: str) -> None:
    descriptor = ALL[NAMES.index(method)]
    made = []
    async with grpc.aio.insecure_channel(service.socket) as channel:
        for token, steps in (("", "[]"), (service.tokens["other"], '[{"sleep_ms":1}]')):
            request: Any = message_factory.GetMessageClass(descriptor.input_type)()
            request.request_id = "shared-key"
            body = f'{{"steps":{steps}}}'
            if method.startswith("Task"):
                request.capability_id, request.arguments = "lab.script", body
            else:
                request.target.scope, request.target.id = "instance", "lab"
                request.method, request.params = "lab.script", body
            answer = await call(channel, descriptor, request, token)
            assert answer.created
            made.append(answer)
    assert made[0] != made[1]


@pytest.mark.req("H05")
@pytest.mark.parametrize(
    "method", ["TaskService.CreateTask", "PermissionService.RequestPermission"]
)
async def test_anothers_session_in_a_request_is_like_one_that_never_was(
    service: Service, method: str
) -> None:
    descriptor, token = ALL[NAMES.index(method)], service.tokens["other"]
    ids = {"session_id": service.ids["session_id"]}
    never = {"session_id": service.never["session_id"]}
    foreign = await _refusal(service.socket, descriptor, ids, token)
    assert foreign == await _refusal(service.socket, descriptor, never, token)


@pytest.mark.req("I43", "S-32", "S-10")
async def test_every_refusal_is_recorded_with_its_method_and_principal(service: Service) -> None:
    """Of a change, whatever the reason; of anything, where somebody may not."""
    wanted = set()
    for method in ALL:
        scopes = scopes_of(method)
        if method in MATRIX and changes_state(method):
            await _refusal(service.socket, method, service.never, service.tokens["other"])
            wanted.add((method.name, "bob", "NOT_FOUND"))
        if ANYBODY not in scopes:
            denied = service.tokens["wrong" if "audit:read" in scopes else "reader"]
            await _refusal(service.socket, method, service.ids, denied)
            wanted.add((method.name, "eve", "PERMISSION_DENIED"))
        await _refusal(service.socket, method, service.ids, service.tokens["bad"])
        wanted.add((method.name, "", "UNAUTHENTICATED"))
    async with connect(service.socket) as owner:
        records = await list_audit(owner, "", "call.refused", 10_000)
    found = set()
    for one in records:
        assert one.decision == "refused"
        reason = json.loads(one.details)["reason"]
        reason = "NOT_FOUND" if reason.endswith("_NOT_FOUND") else reason
        found.add((one.method, one.principal, reason))
        assert service.tokens["bad"] not in str(one)
    assert wanted <= found


@pytest.mark.req("I43")
async def test_who_attached_with_what_is_recorded(service: Service) -> None:
    async with connect(service.socket) as owner:
        attached, *_ = await list_audit(owner, "", "provider.attached", 10)
    details = json.loads(attached.details)
    assert attached.method == "Attach"
    assert "lab.script" in details["capabilities"]


@pytest.mark.req("H05")
async def test_all_of_it_was_there_and_nobody_had_touched_it(service: Service) -> None:
    """The owner finds what the other did not, so that the tests above were about something."""
    for method in sorted(MATRIX, key=lambda one: one.name.startswith(ENDING)):
        found = await _refusal(service.socket, method, service.ids, "")
        assert found is None or found[0] is not grpc.StatusCode.NOT_FOUND, method.full_name


@pytest.mark.req("S-09", "S-10")
async def test_tcp_knows_no_owner_and_stops_listening_to_one_who_guesses(
    service: Service,
) -> None:
    method = ALL[NAMES.index("SystemService.GetSystemInfo")]
    none = await _refusal(service.tcp, method, {}, "")
    bad = await _refusal(service.tcp, method, {}, service.tokens["bad"])
    assert none is not None
    assert none == bad
    assert none[0] is grpc.StatusCode.UNAUTHENTICATED
    codes = [
        found[0]
        for _ in range(12)
        if (found := await _refusal(service.tcp, method, {}, service.tokens["bad"]))
    ]
    assert codes[-1] is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Whoever has a good one is never held up.
    assert await _refusal(service.tcp, method, {}, service.tokens["other"]) is None
