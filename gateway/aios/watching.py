"""Subscriptions and webhooks of a task (R060-R078, R124, R131, R134).

A subscription is a record of the daemon, so that any gateway process can serve its stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from aiosd.aios_wire import words
from aiosd.aios_wire.timestamps import duration, to_text
from aiosd.api.v1 import (
    subscription_pb2,
    subscription_service_pb2,
    task_service_pb2,
    webhook_pb2,
    webhook_service_pb2,
)
from gateway import sse
from gateway.aios import events
from gateway.aios.params import Id, Params, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gateway.aios.method import Call

Json = dict[str, Any]

STREAM_PATH: Final = "/aios/events"
MAX_EVENT_NAMES: Final = 50


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    def check(name: str) -> str:
        if name not in names:
            raise PydanticCustomError("event_name", "must be one of {names}", {"names": listed})
        return name

    listed = ", ".join(names)
    return check


EventName = Annotated[str, AfterValidator(_one_of(words.EVENT_NAMES))]
WebhookEventName = Annotated[str, AfterValidator(_one_of(words.WEBHOOK_EVENT_NAMES))]


class SubscribeParams(Params):
    """aios/task.subscribe. Without events, all of them."""

    task_id: Id
    events: Annotated[list[EventName], Field(max_length=MAX_EVENT_NAMES)] = Field(
        default_factory=list
    )
    last_event_id: str | None = None


async def subscribe(params: SubscribeParams, call: Call) -> Json:
    """Follow a task from now on, or from after an event."""
    request = _request(params)
    answer = await call.ask(call.daemon.subscriptions.CreateSubscription, request)
    return _subscribed(answer.subscription)


class ResubscribeParams(SubscribeParams):
    """aios/task.resubscribe. Without last_event_id, from the first event."""


async def resubscribe(params: ResubscribeParams, call: Call) -> Json:
    """Follow a task again: what was missed since an event, then what comes."""
    request = _request(params)
    request.include_missed = True
    if not request.HasField("after_sequence"):
        request.after_sequence = 0
    answer = await call.ask(call.daemon.subscriptions.CreateSubscription, request)
    rendered = _subscribed(answer.subscription)
    trace_parent = ""
    if any(event.HasField("failed") for event in answer.missed_events):
        # An error names the trace of its task, in a stream, here and in the task alike.
        found = await call.read(
            call.daemon.tasks.GetTask, task_service_pb2.GetTaskRequest(task_id=params.task_id)
        )
        trace_parent = found.task.trace_parent
    rendered["missed_events"] = events.missed(answer.missed_events, trace_parent)
    if answer.truncated:
        rendered["truncated"] = True
        rendered["oldest_event_id"] = sse.format_event_id(answer.oldest_sequence)
    return rendered


def _request(params: SubscribeParams) -> subscription_service_pb2.CreateSubscriptionRequest:
    request = subscription_service_pb2.CreateSubscriptionRequest(
        task_id=params.task_id, families=words.families(params.events)
    )
    if params.last_event_id is not None:
        try:
            request.after_sequence = sse.parse_event_id(params.last_event_id)
        except sse.MalformedEventIdError:
            raise invalid("last_event_id", "must be an event id such as evt-001") from None
    return request


def _subscribed(subscription: subscription_pb2.Subscription) -> Json:
    subscription_id = subscription.subscription_id
    return {
        "subscription_id": subscription_id,
        "task_id": subscription.task_id,
        "stream_url": f"{STREAM_PATH}?subscription_id={quote(subscription_id)}",
    }


class UnsubscribeParams(Params):
    """aios/task.unsubscribe."""

    subscription_id: Id


async def unsubscribe(params: UnsubscribeParams, call: Call) -> Json:
    """Stop following; the task goes on."""
    await call.ask(
        call.daemon.subscriptions.DeleteSubscription,
        subscription_service_pb2.DeleteSubscriptionRequest(subscription_id=params.subscription_id),
    )
    return {"subscription_id": params.subscription_id, "success": True}


class WebhookAuthentication(Params):
    """What the receiver wants to see in Authorization."""

    type: Literal["bearer"]
    token: Annotated[str, Field(min_length=1, max_length=4096)]


class WebhookRetry(Params):
    """Retries after the first attempt, and the pause before each."""

    max_retries: Annotated[int, Field(ge=0, le=20)] = 3
    retry_delay_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 1000


class SubscribeWebhookParams(Params):
    """aios/task.subscribe_webhook."""

    task_id: Id
    webhook_url: Annotated[str, Field(min_length=1, max_length=2048)]
    events: Annotated[list[WebhookEventName], Field(min_length=1, max_length=MAX_EVENT_NAMES)]
    authentication: WebhookAuthentication | None = None
    secret: Annotated[str, Field(min_length=16, max_length=256)] | None = None
    retry_policy: WebhookRetry | None = None


async def subscribe_webhook(params: SubscribeWebhookParams, call: Call) -> Json:
    """Have the events of a task posted to a URL."""
    webhook = webhook_pb2.Webhook(
        task_id=params.task_id,
        url=params.webhook_url,
        events=params.events,
        secret=params.secret or "",
        format=webhook_pb2.WEBHOOK_FORMAT_AIOS,
    )
    if params.authentication is not None:
        webhook.auth_scheme = "Bearer"
        webhook.auth_credentials = params.authentication.token
    if params.retry_policy is not None:
        webhook.max_retries = params.retry_policy.max_retries
        webhook.retry_delay.CopyFrom(duration(params.retry_policy.retry_delay_ms))
    answer = await call.ask(
        call.daemon.webhooks.CreateWebhook,
        webhook_service_pb2.CreateWebhookRequest(webhook=webhook),
    )
    made = answer.webhook
    rendered: Json = {
        "webhook_id": made.webhook_id,
        "task_id": made.task_id,
        "webhook_url": made.url,
        "events": list(made.events),
        "has_secret": made.has_secret,
        "created_at": to_text(made.create_time),
    }
    if answer.signing_secret:
        rendered["signing_secret"] = answer.signing_secret
    return rendered


class UnsubscribeWebhookParams(Params):
    """aios/task.unsubscribe_webhook."""

    task_id: Id
    webhook_url: Annotated[str, Field(min_length=1, max_length=2048)]


async def unsubscribe_webhook(params: UnsubscribeWebhookParams, call: Call) -> Json:
    """Stop posting to a URL; harmless when repeated."""
    answer = await call.ask(
        call.daemon.webhooks.DeleteWebhook,
        webhook_service_pb2.DeleteWebhookRequest(task_id=params.task_id, url=params.webhook_url),
    )
    return {
        "task_id": params.task_id,
        "webhook_url": params.webhook_url,
        "removed": answer.removed,
    }
