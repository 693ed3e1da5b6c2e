"""Scans an answer for the wrong spelling of canceled, object by object (R171, Y17)."""

from __future__ import annotations

from typing import Any

# What callers and providers wrote is theirs to spell.
_THEIRS = ("result", "arguments", "parts", "schema", "input_schema", "output_schema")


def assert_spelling(value: Any) -> None:
    """The OpenAPI wire: tasks write canceled; products, messages, operations cancelled."""
    wrong = wrong_words(value)
    assert not wrong, wrong


def assert_task_spelling(value: Any) -> None:
    """AIOS and A2A: tasks write canceled, messages cancelled."""
    wrong = wrong_task_words(value)
    assert not wrong, wrong


def wrong_words(value: Any, is_product: bool = False) -> list[dict[str, Any]]:
    """Every object of the OpenAPI wire that spells it as another protocol does."""
    found: list[dict[str, Any]] = []
    if isinstance(value, list):
        for item in value:
            found += wrong_words(item)
    elif isinstance(value, dict):
        writes_one_l = "product" in value and "effectState" not in value
        words = {
            value.get(name)
            for name in ("status", "effectState", "outcome")
            if isinstance(value.get(name), str)
        }
        named = {"product", "message_id", "effectState", "capability_id"} & value.keys()
        if is_product or named:
            wrong = "cancelled" if writes_one_l and not is_product else "canceled"
            if wrong in words:
                found.append(value)
        for name, item in value.items():
            if name not in ("metadata", *_THEIRS):
                found += wrong_words(item, name == "product")
    return found


def wrong_task_words(value: Any) -> list[dict[str, Any]]:
    """Every object of the AIOS wire or of A2A that spells it as another protocol does."""
    found: list[dict[str, Any]] = []
    if isinstance(value, list):
        for item in value:
            found += wrong_task_words(item)
    elif isinstance(value, dict):
        said = [value.get(name) for name in ("status", "state", "current_status", "attempted")]
        allowed = value.get("allowed")
        said += allowed if isinstance(allowed, list) else []
        wrong = {"cancelled", "TASK_STATE_CANCELLED"} & {w for w in said if isinstance(w, str)}
        if wrong or value.get("aiosMessageStatus") == "canceled":
            found.append(value)
        for name, item in value.items():
            if name not in _THEIRS:
                found += wrong_task_words(item)
    return found
