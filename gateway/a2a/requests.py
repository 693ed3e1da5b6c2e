"""What a message asks the daemon for: a new task, or an answer to one that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from a2a.types import a2a_pb2
from a2a.utils.proto_utils import validate_proto_required_fields

from aiosd.api.v1 import task_service_pb2
from gateway import strict_json
from gateway.a2a import mapping, words
from gateway.a2a.errors import invalid
from gateway.a2a.json_values import from_struct, from_value, object_text
from gateway.a2a.pushes import to_webhook

if TYPE_CHECKING:
    from gateway.a2a.call import Call

_MAX_ID_CHARS: Final = 128


def check_message(params: a2a_pb2.SendMessageRequest) -> None:
    """Raise InvalidParamsError for what no rule of a task could make sense of."""
    validate_proto_required_fields(params)
    message = params.message
    if message.role != a2a_pb2.ROLE_USER:
        raise invalid("message.role", "a client writes as ROLE_USER")
    for name, value in (
        ("messageId", message.message_id),
        ("contextId", message.context_id),
    ):
        if len(value) > _MAX_ID_CHARS:
            raise invalid(f"message.{name}", f"must not exceed {_MAX_ID_CHARS} characters")
    for index, part in enumerate(message.parts):
        if part.WhichOneof("content") is None:
            raise invalid(
                f"message.parts[{index}]", "must have exactly one of text, raw, url and data"
            )
    configuration = params.configuration
    if configuration.HasField("history_length"):
        check_history_length(configuration.history_length)
    if configuration.HasField("task_push_notification_config"):
        config = configuration.task_push_notification_config
        if not config.url:
            raise invalid("configuration.taskPushNotificationConfig.url", "is required")
        if config.task_id and config.task_id != message.task_id:
            raise invalid("configuration.taskPushNotificationConfig.taskId", "must be empty")


def check_history_length(length: int) -> None:
    """Raise InvalidParamsError below zero."""
    if length < 0:
        raise invalid("historyLength", "must not be negative")


def creation(call: Call, params: a2a_pb2.SendMessageRequest) -> task_service_pb2.CreateTaskRequest:
    """A new task for a message that names none. Raises InvalidParamsError."""
    message = params.message
    try:
        kept = mapping.from_message(message)
        request = task_service_pb2.CreateTaskRequest(
            capability_id=_capability(call, params),
            arguments=_object_text(message) or "{}",
            message=kept,
            context_id=message.context_id,
            metadata=object_text(params.metadata),
            request_id=call.request.request_id(message.message_id, dedupe=call.dedupes),
            reference_task_ids=message.reference_task_ids,
        )
    except ValueError:
        raise invalid("message.parts", "holds a number that JSON cannot write") from None
    if params.configuration.HasField("task_push_notification_config"):
        config = params.configuration.task_push_notification_config
        request.webhooks.append(to_webhook(config, call.tenant))
    return request


def answer(message: a2a_pb2.Message) -> task_service_pb2.SubmitInputRequest:
    """The input that a message is: its first part of data that is an object, else its text."""
    try:
        given = _object_text(message)
        if not given:
            text = "\n".join(part.text for part in message.parts if part.HasField("text"))
            given = strict_json.dumps({"text": text})
        return task_service_pb2.SubmitInputRequest(
            task_id=message.task_id, input=given, message=mapping.from_message(message)
        )
    except ValueError:
        raise invalid("message.parts", "holds a number that JSON cannot write") from None


def decision(message: a2a_pb2.Message) -> tuple[bool, str] | None:
    """A person's yes or no, `{"approve": true, "confirmationId"?}`; None for anything else.

    A decision is not a credential: those never travel in messages (R182).
    """
    given = _object(message) or {}
    approve = given.get("approve")
    if not isinstance(approve, bool):
        return None
    confirmation = given.get("confirmationId", given.get("confirmation_id", ""))
    return approve, confirmation if isinstance(confirmation, str) else ""


def _capability(call: Call, params: a2a_pb2.SendMessageRequest) -> str:
    if call.tenant:
        return call.tenant
    for struct in (params.message.metadata, params.metadata):
        named = from_struct(struct)
        for key in words.CAPABILITY_KEYS:
            if key in named:
                if not isinstance(named[key], str) or not named[key]:
                    raise invalid(f"metadata.{key}", "must name a capability")
                return str(named[key])
    default = call.context.settings.default_capability
    if not default:
        raise invalid(
            "tenant",
            "name a skill of the agent card, here or as metadata.capabilityId: "
            "this server has no default capability",
        )
    return default


def _object(message: a2a_pb2.Message) -> dict[str, Any] | None:
    for part in message.parts:
        if part.WhichOneof("content") == "data" and part.data.HasField("struct_value"):
            value = from_value(part.data)
            return value if isinstance(value, dict) else None
    return None


def _object_text(message: a2a_pb2.Message) -> str:
    given = _object(message)
    return "" if given is None else strict_json.dumps(given)
