"""The one JSON decoder and encoder of every route (S-16).

`loads` takes the bytes of a body and gives plain Python values, or raises `StrictJsonError` and
nothing else. What it refuses is what two readers of the same bytes could understand differently,
or what one of the stores could not keep: invalid UTF-8, byte order marks, NaN and infinities,
numbers beyond a double, integers beyond 2^53, duplicate keys, lone surrogates and NUL characters.

The standard library's C scanner does the work. Its hooks see keys and numbers; nesting and strings
have no hook, so a body that could break their bounds is walked once afterwards, and most bodies
show by their size and their brackets that they cannot.
"""

from __future__ import annotations

import json
import math
import re
from json.decoder import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

Kind = Literal["encoding", "syntax", "number", "duplicate_key", "character", "depth", "length"]
"""Which rule a body broke. `syntax` alone is a violation of RFC 8259; the others are our limits."""

MAX_DEPTH: Final = 32
"""Levels of arrays and objects. A scalar has none, `[]` has one."""
MAX_STRING_BYTES: Final = 256 * 1024
"""UTF-8 bytes of one string or key."""
MAX_INTEGER: Final = 2**53
"""Largest magnitude of a number written without fraction and exponent; larger ones go as text."""

_MAX_INTEGER_CHARS: Final = 17  # "-" and the sixteen digits of 2^53
_MAX_FLOAT_CHARS: Final = 128  # 17 digits tell any double from its neighbours

_SUSPECT_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_FORBIDDEN: Final = re.compile("[\x00\ud800-\udfff]")
_NAME_IN_ERROR_CHARS: Final = 40


class StrictJsonError(ValueError):
    """A body that is not JSON, or is JSON that two readers could understand differently.

    `kind` names the rule. The message is safe to send: it quotes nothing of the body but the name
    of a duplicate key.
    """

    def __init__(self, message: str, kind: Kind) -> None:
        super().__init__(message)
        self.message = message
        self.kind: Kind = kind


def loads(raw: bytes | bytearray, *, max_string_bytes: int = MAX_STRING_BYTES) -> JsonValue:
    """Decode one JSON text.

    Raises `StrictJsonError`, never anything else, whatever the bytes are.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise StrictJsonError(f"not UTF-8 at byte {exc.start}", "encoding") from None
    if text.startswith("\ufeff"):
        raise StrictJsonError("a byte order mark is not allowed", "encoding")
    if "\x00" in text:
        raise StrictJsonError("a NUL byte is not allowed; UTF-16 is not accepted", "encoding")
    try:
        value: JsonValue = _DECODER.decode(text)
    except JSONDecodeError as exc:
        message = f"{exc.msg} at line {exc.lineno} column {exc.colno}"
        raise StrictJsonError(message, "syntax") from None
    except RecursionError:
        raise _too_deep() from None
    if _may_break_a_bound(text, max_string_bytes):
        _walk(value, max_string_bytes)
    return value


def dumps(value: object) -> str:
    """Encode compactly, on one line, with characters as they are.

    Raises ValueError on NaN and infinities, TypeError on anything that JSON has no word for.
    """
    return _ENCODER.encode(value)


def _may_break_a_bound(text: str, max_string_bytes: int) -> bool:
    """Whether `_walk` could find anything: cheap, and wrong only on the safe side."""
    return (
        text.count("[") + text.count("{") > MAX_DEPTH
        # A character is at most four bytes of UTF-8.
        or len(text) * 4 > max_string_bytes
        or _SUSPECT_ESCAPE.search(text) is not None
    )


def _walk(root: JsonValue, max_string_bytes: int) -> None:
    """Check nesting and every string, level by level, so that no input is deep for us."""
    level: list[JsonValue] = [root]
    depth = 0
    while level:
        below: list[JsonValue] = []
        nested = False
        for value in level:
            if isinstance(value, str):
                _check_text(value, max_string_bytes)
            elif isinstance(value, list):
                nested = True
                below.extend(value)
            elif isinstance(value, dict):
                nested = True
                below.extend(value)
                below.extend(value.values())
        if nested:
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        level = below


def _check_text(text: str, max_bytes: int) -> None:
    if _FORBIDDEN.search(text):
        raise StrictJsonError("a string holds NUL or half of a surrogate pair", "character")
    if len(text) * 4 > max_bytes and len(text.encode()) > max_bytes:
        raise StrictJsonError(f"a string is longer than {max_bytes} bytes", "length")


def _too_deep() -> StrictJsonError:
    return StrictJsonError(f"nested deeper than {MAX_DEPTH} levels", "depth")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise StrictJsonError(f"duplicate key {_first_duplicate(pairs)}", "duplicate_key")
    return members


def _first_duplicate(pairs: Iterable[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return ascii(name[:_NAME_IN_ERROR_CHARS])
        seen.add(name)
    raise AssertionError("called without a duplicate")


def _integer(digits: str) -> int:
    # The length is looked at first: the conversion of thousands of digits takes quadratic time.
    if len(digits) <= _MAX_INTEGER_CHARS:
        number = int(digits)
        if -MAX_INTEGER <= number <= MAX_INTEGER:
            return number
    raise StrictJsonError("an integer is beyond 2^53; send it as a string", "number")


def _float(digits: str) -> float:
    if len(digits) <= _MAX_FLOAT_CHARS:
        number = float(digits)
        if math.isfinite(number):
            return number
    raise StrictJsonError("a number does not fit a double; send it as a string", "number")


def _constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name} is not JSON", "syntax")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
