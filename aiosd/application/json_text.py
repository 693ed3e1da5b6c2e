"""JSON text that came from outside: parsed once at the door, then opaque."""

from __future__ import annotations

import json
from typing import Any

from aiosd.domain.errors import ArgumentInvalid

MAX_DEPTH = 32


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


#: Made once: a decoder with hooks is dear to make.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse(text: str, field: str) -> Any:
    """The value of JSON text; raises ArgumentInvalid that names `field` (I42, E22, E23)."""
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ArgumentInvalid(field, "is nested too deeply") from None
    except ValueError as error:
        raise ArgumentInvalid(field, f"is not JSON: {str(error)[:120]}") from None
    _check(value, field, MAX_DEPTH)
    return value


def parse_object(text: str, field: str) -> dict[str, Any]:
    """As `parse`, for text that must be a JSON object."""
    value = parse(text, field)
    if not isinstance(value, dict):
        raise ArgumentInvalid(field, "must be a JSON object")
    return value


def _check(value: object, field: str, depth: int) -> None:
    if depth < 0:
        raise ArgumentInvalid(field, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        check_text(value, field)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ArgumentInvalid(field, "holds a number that is out of range")
    elif isinstance(value, dict):
        for key, member in value.items():
            check_text(key, field)
            _check(member, field, depth - 1)
    elif isinstance(value, list):
        for member in value:
            _check(member, field, depth - 1)


def check_text(text: str, field: str) -> None:
    """Refuse what one of the stores or wires could not give back (E25, E26)."""
    if "\x00" in text:
        raise ArgumentInvalid(field, "must not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentInvalid(field, "must not contain lone surrogates") from None
