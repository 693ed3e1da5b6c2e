"""Scans an answer for the wrong spelling of canceled, object by object (R171, Y17)."""

from __future__ import annotations

from typing import Any


def assert_spelling(value: Any) -> None:
    """Tasks and their status frames write canceled; products, messages, operations cancelled."""
    wrong = wrong_words(value)
    assert not wrong, wrong


def wrong_words(value: Any, is_product: bool = False) -> list[dict[str, Any]]:
    """Every object that spells it as another protocol does."""
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
            if name not in ("metadata", "result", "arguments", "parts"):
                found += wrong_words(item, name == "product")
    return found
