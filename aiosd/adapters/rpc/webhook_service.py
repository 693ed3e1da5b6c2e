"""WebhookService: decode, one use case, encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec import tasks as codec
from aiosd.adapters.rpc.codec.scalars import member
from aiosd.adapters.rpc.codec.webhooks import from_webhook, to_delivery, to_webhook
from aiosd.adapters.rpc.unimplemented import not_implemented
from aiosd.api.v1 import webhook_service_pb2 as wire
from aiosd.api.v1.webhook_service_pb2_grpc import WebhookServiceServicer
from aiosd.application.trust_ports import DeliveryQuery
from aiosd.domain.webhook import DeliveryState

if TYPE_CHECKING:
    import grpc

    from aiosd.application.core import Core

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class WebhookService(WebhookServiceServicer):
    """What clients do with webhooks."""

    def __init__(self, core: Core) -> None:
        self._webhooks = core.webhooks

    async def CreateWebhook(
        self, request: wire.CreateWebhookRequest, context: Context
    ) -> wire.CreateWebhookResponse:
        new = from_webhook(request.webhook, "webhook")
        if not self._webhooks.supports(new.format):
            raise not_implemented(f"CreateWebhook with format {new.format.name}")
        made = await self._webhooks.create(caller.get(), request.webhook.task_id, new)
        return wire.CreateWebhookResponse(
            webhook=to_webhook(made.webhook),
            signing_secret=made.signing_secret,
            created=made.created,
        )

    async def GetWebhook(
        self, request: wire.GetWebhookRequest, context: Context
    ) -> wire.GetWebhookResponse:
        found = await self._webhooks.get(caller.get(), request.task_id, request.webhook_id)
        return wire.GetWebhookResponse(webhook=to_webhook(found))

    async def ListWebhooks(
        self, request: wire.ListWebhooksRequest, context: Context
    ) -> wire.ListWebhooksResponse:
        size, skip = codec.page_size(request.page_size), codec.from_offset_token(request.page_token)
        found = await self._webhooks.of_task(caller.get(), request.task_id)
        return wire.ListWebhooksResponse(
            webhooks=[to_webhook(one) for one in found[skip : skip + size]],
            next_page_token=str(skip + size) if len(found) > skip + size else "",
        )

    async def DeleteWebhook(
        self, request: wire.DeleteWebhookRequest, context: Context
    ) -> wire.DeleteWebhookResponse:
        removed = await self._webhooks.delete(
            caller.get(), request.task_id, webhook_id=request.webhook_id, url=request.url
        )
        return wire.DeleteWebhookResponse(removed=removed)

    async def RotateWebhookSecret(
        self, request: wire.RotateWebhookSecretRequest, context: Context
    ) -> wire.RotateWebhookSecretResponse:
        secret = await self._webhooks.rotate(caller.get(), request.task_id, request.webhook_id)
        return wire.RotateWebhookSecretResponse(signing_secret=secret)

    async def ListDeliveries(
        self, request: wire.ListDeliveriesRequest, context: Context
    ) -> wire.ListDeliveriesResponse:
        size = codec.page_size(request.page_size)
        query = DeliveryQuery(
            principal="",
            task_id=request.task_id,
            state=member(DeliveryState, request.state, "state") if request.state else None,
            before=codec.from_offset_token(request.page_token),
            limit=size + 1,
        )
        found = await self._webhooks.deliveries(caller.get(), query)
        return wire.ListDeliveriesResponse(
            deliveries=[to_delivery(one) for _, one in found[:size]],
            next_page_token=str(found[size - 1][0]) if len(found) > size else "",
        )

    async def RedeliverDelivery(
        self, request: wire.RedeliverDeliveryRequest, context: Context
    ) -> wire.RedeliverDeliveryResponse:
        again = await self._webhooks.redeliver(caller.get(), request.delivery_id)
        return wire.RedeliverDeliveryResponse(delivery=to_delivery(again))
