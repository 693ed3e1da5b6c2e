"""What a person types as a JSON object: `name=value`, `a.b=value`, `name:=json`, and durations."""

from __future__ import annotations

import json
import re
from typing import Any

import typer

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)")
UNIT_MS = {"ms": 1, "s": 1000, "": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

LONGEST_MS = 3650 * UNIT_MS["d"]
"""No limit of the daemon is longer; beyond it a number is a slip."""


class Typed(typer.BadParameter):
    """What was typed cannot be read; exits with code 2 and says what to type."""


def parse_object(words: list[str], text: str | None = None) -> dict[str, Any]:
    """One object from a JSON text and from words that add to it or replace what it has.

    `key=value` takes a number, true, false, null, an object or an array as such and everything
    else as a string; `key:=json` takes JSON only, so `n:="5"` is a string; `a.b=c` nests. A key
    with a dot of its own is written with a backslash before it. What begins like an object or an
    array and is none is refused, since it would silently be a string.
    """
    result = {} if text is None else parse_json_object(text)
    for word in words:
        name, equals, value = word.partition("=")
        forced = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise Typed(f"{word!r}: write key=value or key:=json")
        _put(result, _path(name), _forced(word, value) if forced else _guessed(word, value), word)
    return result


def parse_json_object(text: str) -> dict[str, Any]:
    """A JSON object, or Typed."""
    value = _loads(text, f"not JSON: {text!r}")
    if not isinstance(value, dict):
        raise Typed(f"must be a JSON object, got {text!r}")
    return value


def parse_duration_ms(text: str) -> int:
    """`1500ms`, `30s`, `5m`, `2h`, `1d`; a bare number counts seconds."""
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise Typed(f"{text!r}: write a duration such as 30s, 1500ms or 5m")
    ms = round(float(found[1]) * UNIT_MS[found[2]])
    if ms > LONGEST_MS:
        raise Typed(f"{text!r}: longer than {LONGEST_MS // UNIT_MS['d']} days")
    return ms


def _path(name: str) -> list[str]:
    keys = re.split(r"(?<!\\)\.", name)
    return [key.replace("\\.", ".") for key in keys]


def _put(target: dict[str, Any], path: list[str], value: Any, word: str) -> None:
    *above, last = path
    if not all(path):
        raise Typed(f"{word!r}: a part of the key is empty")
    for key in above:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            raise Typed(f"{word!r}: {key!r} is no object already")
        target = inner
    target[last] = value


def _guessed(word: str, value: str) -> Any:
    try:
        parsed = _loads(value, "")
    except Typed:
        if value[:1] in ("[", "{"):
            raise Typed(
                f"{word!r}: begins like JSON and is none; a string is written key:='\"...\"'"
            ) from None
        return value
    return value if isinstance(parsed, str) else parsed


def _forced(word: str, value: str) -> Any:
    return _loads(value, f"{word!r}: not JSON after :=")


def _loads(text: str, problem: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Typed(problem) from None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
