"""What the audit learns of a call: who, which method, the hash of what was asked (S-32)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from aiosd.application.origin import Origin
from aiosd.domain.audit import request_hash

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor

#: Calls that make something that stays; BatchCreateTasks makes many.
_MAKING = frozenset(
    {
        "CreateTask",
        "CreateOperation",
        "CreateWebhook",
        "CreateSubscription",
        "CreateSession",
        "RequestPermission",
    }
)
_READING = ("Get", "List", "Read", "Subscribe", "Verify")
_MAY_HOLD_SECRETS = frozenset({"auth_response", "requests", "webhook", "webhooks"})
_WEBHOOK_SECRETS = ("auth_credentials", "secret", "notification_token")


def origin_of(principal: str, method: str, request: Any) -> Origin:
    """A call, for the time that it is served."""

    def digest() -> str:
        if not isinstance(request, Message):
            return ""  # a stream of requests
        return request_hash(without_secrets(request).SerializeToString(deterministic=True))

    return Origin(principal, method, digest)


def changes_state(method: MethodDescriptor) -> bool:
    """Whether a call may change anything: then each of its refusals is recorded (I43)."""
    return not method.name.startswith(_READING)


def made_by(method: MethodDescriptor, request: Any) -> int:
    """How many things a call is about to make, of those that have a rate (S-20)."""
    if method.name == "BatchCreateTasks":
        return len(request.requests)
    return int(method.name in _MAKING)


def subject(request: Any) -> tuple[str, str]:
    """The ids of the task and of the capability that a request names."""
    if not isinstance(request, Message):
        return "", ""
    task_id = getattr(request, "task_id", "") or getattr(
        getattr(request, "webhook", None), "task_id", ""
    )
    return str(task_id), str(getattr(request, "capability_id", ""))


def without_secrets(request: Message) -> Message:
    """The request without what must not be guessed from its hash (S-29)."""
    if not any(field.name in _MAY_HOLD_SECRETS for field, _ in request.ListFields()):
        return request
    bare = type(request)()
    bare.CopyFrom(request)
    _strip(bare)
    return bare


def _strip(message: Any) -> None:
    names = message.DESCRIPTOR.fields_by_name
    if "requests" in names:
        for one in message.requests:
            _strip(one)
    webhooks = list(message.webhooks) if "webhooks" in names else []
    if "webhook" in names and message.HasField("webhook"):
        webhooks.append(message.webhook)
    for webhook in webhooks:
        for name in _WEBHOOK_SECRETS:
            webhook.ClearField(name)
    if "auth_response" in names and message.HasField("auth_response"):
        kind = message.auth_response.type
        message.ClearField("auth_response")
        message.auth_response.type = kind
