"""JSON values between the daemon's text and protobuf's Struct, which knows doubles only.

Whole numbers up to 2^53 survive both ways. Larger ones, which only native gRPC clients can send,
become strings of digits, as this wire has no other way to keep them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from gateway import strict_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST: Final = strict_json.MAX_INTEGER


def to_value(given: Any) -> Value:
    """A Value from a JSON value."""
    match given:
        case None:
            return Value(null_value=0)  # type: ignore[arg-type]
        case bool():
            return Value(bool_value=given)
        case int() if abs(given) > _LARGEST:
            return Value(string_value=str(given))
        case int() | float():
            return Value(number_value=given)
        case str():
            return Value(string_value=given)
        case dict():
            return Value(struct_value=to_struct(given))
        case _:
            return Value(list_value=ListValue(values=[to_value(one) for one in given]))


def to_struct(members: Mapping[str, Any]) -> Struct:
    """A Struct from the members of a JSON object."""
    return Struct(fields={name: to_value(member) for name, member in members.items()})


def from_value(value: Value) -> Any:
    """A JSON value from a Value; one without any content reads as null."""
    match value.WhichOneof("kind"):
        case "struct_value":
            return from_struct(value.struct_value)
        case "list_value":
            return [from_value(one) for one in value.list_value.values]
        case "number_value":
            number = value.number_value
            is_whole = number.is_integer() and abs(number) <= _LARGEST
            return int(number) if is_whole else number
        case None | "null_value":
            return None
        case kind:
            return getattr(value, kind)


def from_struct(struct: Struct) -> dict[str, Any]:
    """The members of a JSON object from a Struct."""
    return {name: from_value(member) for name, member in struct.fields.items()}


def object_text(struct: Struct) -> str:
    """JSON object text; empty for an empty Struct. Raises ValueError on NaN and infinities."""
    return strict_json.dumps(from_struct(struct)) if struct.fields else ""
