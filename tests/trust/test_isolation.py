"""The isolation matrix over every RPC, made from the service descriptors (R019, R087, H05)."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf import message_factory

import aiosd.api.provider.v1 as provider_api
import aiosd.api.v1 as client_api
from aiosd.adapters.rpc.authorization import ANYBODY, SCOPES, scopes_of
from aiosd.sdk import connect
from tests.support.programs import Programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

pytestmark = pytest.mark.asyncio(loop_scope="module")
EVERYTHING = (
    *("task:create", "task:read", "task:control", "task:input", "webhook:manage"),
    "provider:attach",
)
#: What only administrators see has no owner; a scope decides alone.
OWNED = ("task_id", "artifact_id", "subscription_id", "session_id", "operation_id", "grant_id")


def methods() -> list[MethodDescriptor]:
    """Every published RPC."""
    found = []
    for package in (client_api, provider_api):
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.endswith("service_pb2"):
                file = importlib.import_module(f"{package.__name__}.{module.name}").DESCRIPTOR
                for service in file.services_by_name.values():
                    found += service.methods
    return found


ALL = methods()
NAMES = [f"{one.containing_service.name}.{one.name}" for one in ALL]


@dataclass(frozen=True)
class Service:
    """A daemon that also listens on TCP, and what the owner has there."""

    socket: str
    tcp: str
    tokens: dict[str, str]
    ids: dict[str, str]


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
            yield Service(
                programs.address, daemon.ready["grpc_tcp"], tokens, await _belongings(programs)
            )
        finally:
            await programs.aclose()


async def _token(programs: Programs, principal: str, *scopes: str) -> str:
    from aiosd.ctl.access_calls import create_token

    async with connect(programs.address) as client:
        return (await create_token(client, principal, scopes, 0)).secret


async def _belongings(programs: Programs) -> dict[str, str]:
    """A waiting task with an artifact, a subscription, a webhook and a session of the owner."""
    async with connect(programs.address) as client:
        steps = [
            {"artifact": {"name": "a", "parts": [{"type": "text", "text": "mine"}]}},
            {"ask": {"prompt": "?"}},
        ]
        task = await client.create("lab.script", {"steps": steps})
        task = await client.wait(task.task_id, 20_000)
        ids = {"task_id": task.task_id, "artifact_id": task.artifacts[0].artifact_id}
        made = {
            "subscription_id": "SubscriptionService.CreateSubscription",
            "session_id": "SessionService.CreateSession",
            "webhook_id": "WebhookService.CreateWebhook",
        }
        for name, method in made.items():
            descriptor = ALL[NAMES.index(method)]
            answer = await _call(
                client.channel, descriptor, _request(descriptor, {"task_id": task.task_id}), ""
            )
            ids[name] = getattr(getattr(answer, name.removesuffix("_id")), name)
        del ids["webhook_id"]
        operation = await client.operations.create("lab", "lab.script", {"steps": []})
        return ids | {"operation_id": operation.operation_id}


def _request(method: MethodDescriptor, ids: dict[str, str]) -> Message:
    """A well-formed request that names these ids."""
    request: Any = message_factory.GetMessageClass(method.input_type)()
    names = method.input_type.fields_by_name
    for name, value in ids.items():
        if name in names and method.name not in ("CreateTask", "RequestPermission"):
            setattr(request, name, value)
    if "webhook" in names:
        request.webhook.task_id = ids.get("task_id", "task-none")
        request.webhook.url = "http://127.0.0.1:9/hook"
        request.webhook.webhook_id = "w"
    for name, value in {
        "input": '{"a":1}',
        "outcome": "failed",
        "evidence": "seen",
        "webhook_id": "w",
        "delivery_id": "del-none",
        "grant_id": "grant-none",
    }.items():
        if name in names:
            setattr(request, name, value)
    if "auth_response" in names:
        request.auth_response.type = 2
        request.auth_response.api_key = "k"
    return request


async def _call(
    channel: grpc.aio.Channel, method: MethodDescriptor, request: Message, token: str
) -> Any:
    """The answer, or of a stream the first one."""
    kind = message_factory.GetMessageClass(method.output_type)
    path = f"/{method.containing_service.full_name}/{method.name}"
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    encode = type(request).SerializeToString
    if method.client_streaming:
        stream = channel.stream_stream(path, encode, kind.FromString)
        return await stream(iter([request]), metadata=metadata, timeout=20).read()
    if method.server_streaming:
        call = channel.unary_stream(path, encode, kind.FromString)(
            request, metadata=metadata, timeout=20
        )
        answer = await call.read()
        call.cancel()
        return answer
    unary = channel.unary_unary(path, encode, kind.FromString)
    return await unary(request, metadata=metadata, timeout=20)


async def _refusal(
    address: str, method: MethodDescriptor, ids: dict[str, str], token: str
) -> tuple[Any, ...] | None:
    """Code, text and details, to the byte; None if it was no refusal."""
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            await _call(channel, method, _request(method, ids), token)
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


@pytest.mark.req("R019", "R087", "S-18", "H05")
@pytest.mark.parametrize(
    "method",
    [
        one
        for one in ALL
        if set(OWNED) & set(one.input_type.fields_by_name)
        and "audit:read" not in scopes_of(one)
        and one.name not in ("CreateTask", "RequestPermission", "ListGrants", "ListDeliveries")
    ],
    ids=lambda one: f"{one.containing_service.name}.{one.name}",
)
async def test_what_is_anothers_is_answered_like_what_never_was(
    service: Service, method: MethodDescriptor
) -> None:
    never = {name: f"{value.partition('-')[0]}-{'0' * 32}" for name, value in service.ids.items()}
    token = service.tokens["other"]
    foreign = await _refusal(service.socket, method, service.ids, token)
    unknown = await _refusal(service.socket, method, never, token)
    assert foreign == unknown
    assert foreign is not None
    assert foreign[0] is grpc.StatusCode.NOT_FOUND


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
