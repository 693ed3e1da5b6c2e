"""JSON payloads as 1.0 writes them, checked before ProtoJSON reads them (Z18-Z23, R155, R188).

ProtoJSON is lenient where the specification is not: it takes a value of an enumeration that it
does not know for the first one, and a part of 0.3 for one without content. What passes here is the
payload with every state in its 1.0 spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.a2a import proto_json
from gateway.a2a.errors import invalid
from gateway.a2a.words import ROLE_NAMES, state_name

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtoMessage

CONTENT: Final = ("text", "raw", "url", "data")
SENDING: Final = frozenset({"SendMessage", "SendStreamingMessage"})
LISTING: Final = "ListTasks"

Json = dict[str, Any]


def check_message_request(params: Mapping[str, Any]) -> None:
    """Raise InvalidParamsError for a message that is not of 1.0."""
    message = params.get("message")
    if message is None:
        return
    if not isinstance(message, Mapping):
        raise invalid("message", "must be an object")
    _refuse_kind(message, "message")
    role = message.get("role")
    if isinstance(role, str) and role not in ROLE_NAMES:
        raise invalid("message.role", "must be ROLE_USER")
    parts = message.get("parts")
    if isinstance(parts, list):
        for index, part in enumerate(parts):
            _check_part(part, f"message.parts[{index}]")


def _check_part(part: Any, field: str) -> None:
    if not isinstance(part, Mapping):
        raise invalid(field, "must be an object")
    _refuse_kind(part, field)
    if "file" in part:
        raise invalid(f"{field}.file", "is a member of 0.3; 1.0 has raw and url")
    # Presence decides: null is a value of data, and of nothing else.
    given = [
        name for name in CONTENT if name in part and (part[name] is not None or name == "data")
    ]
    if len(given) != 1:
        raise invalid(field, "must have exactly one of text, raw, url and data")


def _refuse_kind(value: Mapping[str, Any], field: str) -> None:
    if "kind" in value:
        raise invalid(f"{field}.kind", "is a member of 0.3; 1.0 names the content itself")


def with_known_status(params: Mapping[str, Any]) -> Json:
    """The parameters of ListTasks with the state spelled as 1.0 does (Y09)."""
    status = params.get("status")
    if not isinstance(status, str):
        return dict(params)
    name = state_name(status)
    if name is None:
        raise invalid("status", "must be a state such as TASK_STATE_WORKING")
    return {**params, "status": name}


def checked(method: str, params: Any, expected: type[ProtoMessage] | None) -> Json:
    """The parameters of a JSON-RPC call, checked and in one spelling; `expected` is their form."""
    if not isinstance(params, Mapping):
        raise invalid("params", "must be an object")
    if method in SENDING:
        check_message_request(params)
    elif method == LISTING:
        params = with_known_status(params)
    if expected is not None:
        proto_json.check(params, expected)
    return dict(params)
