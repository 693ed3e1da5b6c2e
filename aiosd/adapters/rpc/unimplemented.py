"""What the contract already says and this version does not do yet: UNIMPLEMENTED, clearly."""

from __future__ import annotations

from aiosd.domain.errors import Refusal


class NotImplementedYet(Refusal):
    """Published, not built."""

    reason = "NOT_IMPLEMENTED"


def not_implemented(method: str) -> NotImplementedYet:
    """The refusal of a method that is not built."""
    return NotImplementedYet(f"{method} is not implemented by this version", {"method": method})
