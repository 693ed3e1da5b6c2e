"""Rewriting every text inside a value, whatever dataclass it is made of."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def masked(value: T, mask: Callable[[str], str]) -> T:
    """The same value with `mask` applied to each text in it; what does not change is kept."""
    return _masked(value, mask)  # type: ignore[no-any-return]


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str) and type(value) is str:
        return mask(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_masked(member, mask) for member in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for member in fields(value):
            before = getattr(value, member.name)
            after = _masked(before, mask)
            if after is not before and after != before:
                changed[member.name] = after
        return replace(value, **changed) if changed else value
    return value
