"""Messages of the contract as plain values, the way `-o json` writes them.

Names stay, enumerations become lower-case words, times ISO 8601 in UTC, durations whole
milliseconds under `NAME_ms`, and JSON text becomes the value that it spells.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

if TYPE_CHECKING:
    from google.protobuf.message import Message

# String fields of the contract that carry JSON text.
JSON_FIELDS = frozenset(
    {
        *("arguments", "metadata", "result", "data", "schema", "state", "value", "input"),
        *("input_schema", "output_schema", "state_schema", "params", "context", "details"),
    }
)


def plain(message: Message) -> dict[str, Any]:
    """What is set in a message, as values that JSON can say."""
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.is_repeated:
            values[field.name] = [_value(field, item) for item in value]
        elif isinstance(value, Duration):
            values[f"{field.name}_ms"] = value.ToMilliseconds()
        else:
            values[field.name] = _value(field, value)
    return values


def word(kind: Any, number: int) -> str:
    """The word of an enumeration's value, such as `input_required`; the number if it is unknown.

    `kind` is the enumeration's descriptor.
    """
    found = kind.values_by_number.get(number)
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.name).upper() + "_"
    return str(number) if found is None else found.name.removeprefix(prefix).lower()


def field_word(message: Message, name: str) -> str:
    """The word in an enumeration field of a message."""
    kind = message.DESCRIPTOR.fields_by_name[name].enum_type
    return word(kind, getattr(message, name)) if kind is not None else ""


def timestamp(value: Timestamp) -> str:
    """ISO 8601 in UTC with milliseconds."""
    moment = value.ToDatetime(tzinfo=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _value(field: FieldDescriptor, value: Any) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE if isinstance(value, Timestamp):
            return timestamp(value)
        case FieldDescriptor.TYPE_MESSAGE if isinstance(value, Duration):
            return value.ToMilliseconds()
        case FieldDescriptor.TYPE_MESSAGE:
            return plain(value)
        case FieldDescriptor.TYPE_ENUM if field.enum_type is not None:
            return word(field.enum_type, value)
        case FieldDescriptor.TYPE_BYTES:
            return base64.b64encode(value).decode()
        case FieldDescriptor.TYPE_STRING if field.name in JSON_FIELDS:
            return _json(value)
        case _:
            return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
