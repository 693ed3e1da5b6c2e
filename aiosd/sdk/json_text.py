"""JSON values to the JSON text that the contract carries, and back."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any


def dump(value: Any, field: str) -> str:
    """Compact JSON text. Dataclasses and pydantic models are written as objects.

    Raises ValueError, which names `field`, for what JSON cannot say: NaN, infinity, other types.
    """
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
        )
        text.encode()  # a lone surrogate has no UTF-8
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"{field}: not a JSON value: {problem}") from None
    return text


def dump_object(value: Any, field: str) -> str:
    """As `dump`, for a JSON object. Raises ValueError for any other value."""
    text = dump(value, field)
    if not text.startswith("{"):
        raise ValueError(f"{field}: must be a JSON object")
    return text


def load(text: str) -> Any:
    """The value of JSON text; None for the empty text, by which the contract says "none"."""
    return json.loads(text) if text else None


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    model_dump = getattr(value, "model_dump", None)
    if callable(model_dump):
        return model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")
