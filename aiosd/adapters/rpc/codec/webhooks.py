"""Webhooks and deliveries. What is secret goes in and never out (R134)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiosd.adapters.rpc.codec.scalars import DAY_MS, member, span, timestamp
from aiosd.api.v1 import webhook_pb2
from aiosd.application.webhook_request import NewWebhook
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.webhook import WebhookFormat

if TYPE_CHECKING:
    from aiosd.domain.webhook import Delivery, Webhook


def from_webhook(message: webhook_pb2.Webhook, field: str) -> NewWebhook:
    """What a caller asks for; raises ArgumentInvalid that names the field."""
    if not message.url:
        raise ArgumentInvalid(f"{field}.url", "is required")
    delay = None
    if message.HasField("retry_delay"):
        delay = span(message.retry_delay, f"{field}.retry_delay", most=DAY_MS)
    form = message.format or webhook_pb2.WEBHOOK_FORMAT_AIOS
    return NewWebhook(
        url=message.url,
        events=tuple(message.events),
        webhook_id=message.webhook_id,
        auth_scheme=message.auth_scheme,
        auth_credentials=message.auth_credentials,
        secret=message.secret,
        notification_token=message.notification_token,
        max_retries=message.max_retries if message.HasField("max_retries") else None,
        retry_delay_ms=delay,
        format=member(WebhookFormat, form, f"{field}.format"),
        tenant=message.tenant,
    )


def to_webhook(webhook: Webhook) -> webhook_pb2.Webhook:
    """A webhook as its owner sees it."""
    message = webhook_pb2.Webhook(
        webhook_id=webhook.id,
        task_id=webhook.task_id,
        url=webhook.url,
        events=webhook.events,
        auth_scheme=webhook.auth_scheme,
        has_secret=webhook.has_secret,
        max_retries=webhook.max_retries,
        format=cast("webhook_pb2.WebhookFormat.ValueType", int(webhook.format)),
        create_time=timestamp(webhook.create_time),
        disabled=webhook.disabled,
        tenant=webhook.tenant,
    )
    if webhook.retry_delay_ms is not None:
        message.retry_delay.FromMilliseconds(webhook.retry_delay_ms)
    return message


def to_delivery(delivery: Delivery) -> webhook_pb2.Delivery:
    """A delivery as the log of deliveries shows it."""
    return webhook_pb2.Delivery(
        delivery_id=delivery.id,
        webhook_id=delivery.webhook_id,
        task_id=delivery.task_id,
        sequence=delivery.sequence,
        event=delivery.event,
        url=delivery.url,
        state=cast("webhook_pb2.DeliveryState.ValueType", int(delivery.state)),
        attempts=delivery.attempts,
        last_status=delivery.last_status,
        last_error=delivery.last_error,
        next_time=timestamp(delivery.next_time),
        create_time=timestamp(delivery.create_time),
        update_time=timestamp(delivery.update_time),
    )
