"""Push notification configurations: webhooks of the daemon that post in this wire's shape."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final, TypeVar

from a2a.types import a2a_pb2
from a2a.utils.errors import (
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from aiosd.api.v1 import webhook_pb2, webhook_service_pb2
from gateway.a2a import snapshot
from gateway.a2a.errors import invalid

if TYPE_CHECKING:
    from grpc import aio

    from gateway.a2a.call import Call

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_MAX_ID_CHARS: Final = 128


async def create(
    call: Call, params: a2a_pb2.TaskPushNotificationConfig
) -> a2a_pb2.TaskPushNotificationConfig:
    """Register or replace a configuration, on a terminal task too."""
    if not params.task_id:
        raise invalid("taskId", "is required")
    await snapshot.fetch(call, params.task_id)
    return await register(call, params.task_id, params)


async def register(
    call: Call, task_id: str, config: a2a_pb2.TaskPushNotificationConfig
) -> a2a_pb2.TaskPushNotificationConfig:
    """Register for a task that is known to be the caller's; the whole configuration, with id."""
    webhook = to_webhook(config, call.tenant)
    webhook.task_id = task_id
    request = webhook_service_pb2.CreateWebhookRequest(webhook=webhook)
    answer = await _ask(call, call.context.daemon.webhooks.CreateWebhook, request)
    whole = a2a_pb2.TaskPushNotificationConfig()
    whole.CopyFrom(config)
    whole.id, whole.task_id, whole.tenant = answer.webhook.webhook_id, task_id, call.tenant
    return whole


async def get(
    call: Call, params: a2a_pb2.GetTaskPushNotificationConfigRequest
) -> a2a_pb2.TaskPushNotificationConfig:
    """One configuration, without its secrets."""
    await snapshot.fetch(call, params.task_id)
    request = webhook_service_pb2.GetWebhookRequest(task_id=params.task_id, webhook_id=params.id)
    answer = await _ask(call, call.context.daemon.webhooks.GetWebhook, request)
    if not _is_ours(call, answer.webhook):
        raise TaskNotFoundError
    return from_webhook(answer.webhook)


async def list_all(
    call: Call, params: a2a_pb2.ListTaskPushNotificationConfigsRequest
) -> a2a_pb2.ListTaskPushNotificationConfigsResponse:
    """The configurations of a task, a page at a time if pages are asked for."""
    if not 0 <= params.page_size <= 100:
        raise invalid("pageSize", "must be between 1 and 100")
    await snapshot.fetch(call, params.task_id)
    request = webhook_service_pb2.ListWebhooksRequest(
        task_id=params.task_id, page_size=params.page_size, page_token=params.page_token
    )
    answer = await _ask(call, call.context.daemon.webhooks.ListWebhooks, request)
    return a2a_pb2.ListTaskPushNotificationConfigsResponse(
        configs=[from_webhook(one) for one in answer.webhooks if _is_ours(call, one)],
        next_page_token=answer.next_page_token,
    )


async def delete(call: Call, params: a2a_pb2.DeleteTaskPushNotificationConfigRequest) -> None:
    """Stop deliveries; harmless when repeated."""
    await snapshot.fetch(call, params.task_id)
    request = webhook_service_pb2.DeleteWebhookRequest(task_id=params.task_id, webhook_id=params.id)
    await _ask(call, call.context.daemon.webhooks.DeleteWebhook, request)


def to_webhook(config: a2a_pb2.TaskPushNotificationConfig, tenant: str) -> webhook_pb2.Webhook:
    """The daemon's webhook for a configuration. Raises InvalidParamsError."""
    if not config.url:
        raise invalid("url", "is required")
    if len(config.id) > _MAX_ID_CHARS:
        raise invalid("id", f"must not exceed {_MAX_ID_CHARS} characters")
    return webhook_pb2.Webhook(
        webhook_id=config.id or f"push-{secrets.token_hex(12)}",
        task_id=config.task_id,
        url=config.url,
        auth_scheme=config.authentication.scheme,
        auth_credentials=config.authentication.credentials,
        notification_token=config.token,
        format=webhook_pb2.WEBHOOK_FORMAT_A2A,
        tenant=tenant,
    )


def from_webhook(webhook: webhook_pb2.Webhook) -> a2a_pb2.TaskPushNotificationConfig:
    """A configuration as it is read: the daemon never returns credentials."""
    config = a2a_pb2.TaskPushNotificationConfig(
        tenant=webhook.tenant,
        id=webhook.webhook_id,
        task_id=webhook.task_id,
        url=webhook.url,
    )
    if webhook.auth_scheme:
        config.authentication.scheme = webhook.auth_scheme
    return config


def _is_ours(call: Call, webhook: webhook_pb2.Webhook) -> bool:
    return webhook.format == webhook_pb2.WEBHOOK_FORMAT_A2A and webhook.tenant == call.tenant


async def _ask(
    call: Call, method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT
) -> ResponseT:
    try:
        return await call.ask(method, request)
    except UnsupportedOperationError:
        raise PushNotificationNotSupportedError from None
