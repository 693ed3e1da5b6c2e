"""Text patterns in which `*` stands for any text, empty text included; nothing else is special."""

from __future__ import annotations


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern covers the whole text; linear in their lengths, whatever the pattern."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    *middle, last = rest
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
