"""Who is on the other end of a call (S-05, S-08).

On the owner's socket a call without a token is the owner: the file mode let it in. A token that
is present must be valid, wherever the call comes from.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Protocol

from aiosd.application.access import SCOPES, Caller
from aiosd.application.errors import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Mapping

BEARER = "bearer "


class Identity(Protocol):
    """Turns a bearer token into a caller."""

    async def caller(self, token: str | None) -> Caller:
        """Raises Unauthenticated for a token that is not valid."""
        ...


class TokenFiles:
    """The tokens of the state directory: their hash decides, compared in constant time."""

    def __init__(self, owner: Caller, tokens: Mapping[str, Caller]) -> None:
        self._owner = owner
        self._tokens = [(_digest(token), caller) for token, caller in tokens.items()]

    async def caller(self, token: str | None) -> Caller:
        """The owner without a token, else the token's caller."""
        if token is None:
            return self._owner
        given = _digest(token)
        found = None
        for digest, caller in self._tokens:
            if hmac.compare_digest(digest, given):
                found = caller
        if found is None:
            raise Unauthenticated
        return found


def owner(principal: str) -> Caller:
    """The local owner: everything but approving what its own programs asked for (R123)."""
    return Caller(principal, SCOPES - {"permission:approve", "admin:*"})


def bearer(metadata: Mapping[str, str]) -> str | None:
    """The token of a call; raises Unauthenticated for another scheme."""
    header = metadata.get("authorization")
    if header is None:
        return None
    if not header.lower().startswith(BEARER):
        raise Unauthenticated
    return header[len(BEARER) :].strip()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
