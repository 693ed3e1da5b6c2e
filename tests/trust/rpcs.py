"""Every published RPC as a generic call, and one of everything that somebody can have there."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, cast

from google.protobuf import message_factory

import aiosd.api.provider.v1 as provider_api
import aiosd.api.v1 as client_api
from aiosd.api.v1 import webhook_pb2
from aiosd.ctl.access_calls import list_grants
from aiosd.ctl.trust_calls import list_deliveries
from aiosd.sdk import Client, connect
from tests.support.approving import approve
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import grpc
    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message


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


def name_of(method: MethodDescriptor) -> str:
    return f"{method.containing_service.name}.{method.name}"


def named(method: MethodDescriptor) -> set[str]:
    """The fields of its request, and of the webhook in it."""
    fields = method.input_type.fields_by_name
    webhook = fields["webhook"].message_type if "webhook" in fields else None
    inner = () if webhook is None else webhook.fields_by_name
    return {*fields, *inner}


ALL = methods()
NAMES = [name_of(one) for one in ALL]


async def belongings(address: str, state_dir: Path, token: str) -> dict[str, str]:
    """One of everything that somebody can have; the task waits, and everything is of it.

    Somebody must not have been granted anything for `lab.script.low` before.
    """
    async with connect(address, token) as client:
        steps = [
            {"artifact": {"name": "a", "parts": [{"type": "text", "text": "mine"}]}},
            {"ask": {"prompt": "?"}},
        ]
        task = await client.create("lab.script.low", {"steps": steps})
        await client.wait(task.task_id, 20_000)  # only then does the approver see another's task
        await approve(address, state_dir, task.task_id)
        task = await client.wait(task.task_id, 20_000)
        ids = {"task_id": task.task_id, "artifact_id": task.artifacts[0].artifact_id}
        made = {
            "subscription_id": "SubscriptionService.CreateSubscription",
            "session_id": "SessionService.CreateSession",
            "webhook_id": "WebhookService.CreateWebhook",
        }
        for name, method in made.items():
            descriptor = ALL[NAMES.index(method)]
            request = request_for(descriptor, {"task_id": task.task_id})
            answer = await call(client.channel, descriptor, request, token)
            ids[name] = getattr(getattr(answer, name.removesuffix("_id")), name)
        operation = await client.operations.create("lab", "lab.script", {"steps": []})
        ids["operation_id"] = operation.operation_id
        (grant,) = await list_grants(client, "lab.script.low")
        ids["grant_id"] = grant.grant_id
        ids["delivery_id"] = await _dead_letter(client)
        return ids


async def _dead_letter(client: Client) -> str:
    """A delivery that nobody took and that is not tried any more."""
    webhook = webhook_pb2.Webhook(
        url="http://127.0.0.1:9/dead", max_retries=0, events=["completed"]
    )
    task = await client.create("lab.script", {"steps": []}, webhooks=[webhook])

    async def look() -> str:
        found = await list_deliveries(
            client, task.task_id, webhook_pb2.DELIVERY_STATE_DEAD_LETTER, 1
        )
        return found[0].delivery_id if found else ""

    return await eventually(look, within_s=20) or ""


def request_for(method: MethodDescriptor, ids: dict[str, str]) -> Message:
    """A well-formed request that names these ids."""
    request: Any = message_factory.GetMessageClass(method.input_type)()
    names = method.input_type.fields_by_name
    for name, value in ids.items():
        if name in names:
            setattr(request, name, value)
    if method.name == "RequestPermission":
        request.permissions.add()
    if "webhook" in names:
        request.webhook.task_id = ids.get("task_id", "task-none")
        request.webhook.url = "http://127.0.0.1:9/hook"
        request.webhook.webhook_id = ids.get("webhook_id", "w")
    for name, value in {
        "capability_id": "lab.script",
        "input": '{"a":1}',
        "outcome": "failed",
        "evidence": "seen",
    }.items():
        if name in names and method.name != "RevokeGrants":
            setattr(request, name, value)
    if "auth_response" in names:
        request.auth_response.type = 2
        request.auth_response.api_key = "k"
    return cast("Message", request)


async def call(
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
