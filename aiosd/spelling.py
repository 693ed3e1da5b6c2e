"""The one reader of a word that has two spellings (R172, Y17); each wire writes one of them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_OTHER: Final[Mapping[str, str]] = MappingProxyType(
    {"canceled": "cancelled", "cancelled": "canceled"}
)


def spelled(word: str, known: Collection[str]) -> str | None:
    """The one of `known` that a word means, whichever way it spells canceled; None for none."""
    if word in known:
        return word
    other = _OTHER.get(word)
    return other if other in known else None
