"""Calls of WebhookService and AuditService, which the SDK's client has no method for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from grpc import aio

from aiosd.api.v1 import (
    audit_service_pb2,
    audit_service_pb2_grpc,
    webhook_service_pb2,
    webhook_service_pb2_grpc,
)
from aiosd.sdk import rpc_status

if TYPE_CHECKING:
    from aiosd.api.v1 import audit_pb2, webhook_pb2
    from aiosd.sdk import Client

DEADLINE_S = 60
PAGE = 200

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


async def list_webhooks(client: Client, task_id: str) -> list[webhook_pb2.Webhook]:
    """All webhooks of a task. Raises AiosdError, as every function here does."""
    stub = webhook_service_pb2_grpc.WebhookServiceStub(client.channel)
    request = webhook_service_pb2.ListWebhooksRequest(task_id=task_id, page_size=PAGE)
    return list((await _ask(client, stub.ListWebhooks, request)).webhooks)


async def list_deliveries(
    client: Client, task_id: str, state: int, limit: int
) -> list[webhook_pb2.Delivery]:
    """At most `limit` deliveries, newest first; `state` 0 means every state."""
    stub = webhook_service_pb2_grpc.WebhookServiceStub(client.channel)
    found: list[webhook_pb2.Delivery] = []
    token = ""
    while len(found) < limit:
        request = webhook_service_pb2.ListDeliveriesRequest(
            task_id=task_id,
            state=state,  # type: ignore[arg-type]
            page_size=min(PAGE, limit - len(found)),
            page_token=token,
        )
        answer = await _ask(client, stub.ListDeliveries, request)
        found += answer.deliveries
        token = answer.next_page_token
        if not token:
            break
    return found


async def redeliver(client: Client, delivery_id: str) -> webhook_pb2.Delivery:
    """The delivery, pending again."""
    stub = webhook_service_pb2_grpc.WebhookServiceStub(client.channel)
    request = webhook_service_pb2.RedeliverDeliveryRequest(delivery_id=delivery_id)
    return (await _ask(client, stub.RedeliverDelivery, request)).delivery


async def rotate(client: Client, task_id: str, webhook_id: str) -> str:
    """The new secret."""
    stub = webhook_service_pb2_grpc.WebhookServiceStub(client.channel)
    request = webhook_service_pb2.RotateWebhookSecretRequest(task_id=task_id, webhook_id=webhook_id)
    return (await _ask(client, stub.RotateWebhookSecret, request)).signing_secret


async def list_audit(
    client: Client, task_id: str, event: str, limit: int
) -> list[audit_pb2.AuditRecord]:
    """At most `limit` records, oldest first."""
    stub = audit_service_pb2_grpc.AuditServiceStub(client.channel)
    found: list[audit_pb2.AuditRecord] = []
    token = ""
    while len(found) < limit:
        request = audit_service_pb2.ListAuditRecordsRequest(
            task_id=task_id,
            event=event,
            page_size=min(PAGE, limit - len(found)),
            page_token=token,
        )
        answer = await _ask(client, stub.ListAuditRecords, request)
        found += answer.records
        token = answer.next_page_token
        if not token:
            break
    return found


async def verify_audit(client: Client) -> audit_service_pb2.VerifyAuditResponse:
    """What the daemon finds in its own chain."""
    stub = audit_service_pb2_grpc.AuditServiceStub(client.channel)
    return await _ask(client, stub.VerifyAudit, audit_service_pb2.VerifyAuditRequest())


async def _ask(
    client: Client, method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT
) -> ResponseT:
    try:
        return await method(request, metadata=client.metadata, timeout=DEADLINE_S)
    except aio.AioRpcError as error:
        raise rpc_status.from_rpc(error) from None
