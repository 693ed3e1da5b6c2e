"""ProtoJSON held against a message of the contract before the SDK reads it (R155, R187).

The SDK's reader names neither the member nor what it should have been, and tells the caller how it
is built. What passes here it reads. Unknown members are left alone, as they are there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

from gateway.a2a.errors import invalid

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message as ProtoMessage

_INTEGER_TEXT: Final = re.compile(r"-?[0-9]{1,10}")
# Both alphabets, with padding or without, as ProtoJSON reads them.
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_INT32: Final = range(-(2**31), 2**31)


def check(value: Any, expected: type[ProtoMessage]) -> None:
    """Raise InvalidParamsError, by the member's path, for what is no such message."""
    _check_members(value, cast("Descriptor", expected.DESCRIPTOR), "")


def _check_members(value: Any, descriptor: Descriptor, path: str) -> None:
    if not isinstance(value, Mapping):
        raise invalid(path or "params", "must be an object")
    for field in descriptor.fields:
        name = f"{path}.{field.json_name}" if path else field.json_name
        if field.json_name != field.name and field.json_name in value and field.name in value:
            raise invalid(name, f"is given twice, as {field.json_name} and as {field.name}")
        given = value.get(field.json_name, value.get(field.name))
        if given is None:
            continue
        if not field.is_repeated:
            _check_one(given, field, name)
        elif isinstance(given, list):
            for index, one in enumerate(given):
                _check_one(one, field, f"{name}[{index}]")
        else:
            raise invalid(name, "must be an array")


def _check_one(value: Any, field: FieldDescriptor, name: str) -> None:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            _check_message(value, cast("Descriptor", field.message_type), name)
        case FieldDescriptor.TYPE_STRING:
            if not isinstance(value, str):
                raise invalid(name, "must be a string")
        case FieldDescriptor.TYPE_BYTES:
            if not isinstance(value, str) or not _BASE64.fullmatch(value):
                raise invalid(name, "must be base64")
        case FieldDescriptor.TYPE_BOOL:
            if not isinstance(value, bool):
                raise invalid(name, "must be true or false")
        case FieldDescriptor.TYPE_ENUM:
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise invalid(name, "must be a name of the enumeration")
        case _:
            _check_integer(value, name)


def _check_message(value: Any, descriptor: Descriptor, name: str) -> None:
    match descriptor.full_name:
        case "google.protobuf.Value":
            return
        case "google.protobuf.Struct":
            if not isinstance(value, Mapping):
                raise invalid(name, "must be an object")
        case "google.protobuf.Timestamp":
            try:
                Timestamp().FromJsonString(value)
            except (ValueError, TypeError):
                raise invalid(name, "must be a time such as 2026-01-31T12:00:00Z") from None
        case _:
            _check_members(value, descriptor, name)


def _check_integer(value: Any, name: str) -> None:
    """The contract's numbers are int32 alone; ProtoJSON takes them as text too."""
    if isinstance(value, str) and _INTEGER_TEXT.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value not in _INT32:
        raise invalid(name, "must be an integer of 32 bits")
