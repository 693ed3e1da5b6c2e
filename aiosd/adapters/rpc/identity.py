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
_OWNER, _APPROVER = "owner", "approver"


class Identity(Protocol):
    """Turns a bearer token into a caller."""

    async def caller(self, token: str | None) -> Caller:
        """Raises Unauthenticated for a token that is not valid."""
        ...


class Issued(Protocol):
    """Tokens that the service itself made."""

    async def caller(self, text: str) -> Caller | None:
        """Whose token this is; None for one that does not hold."""
        ...


class Identities:
    """The files of the state directory first, then what was issued; all failures look alike."""

    def __init__(self, files: TokenFiles, *issued: Issued) -> None:
        self._files = files
        self._issued = issued

    async def caller(self, token: str | None) -> Caller:
        """Raises Unauthenticated for a token that nobody knows."""
        if token is None:
            return self._files.local()
        found = self._files.find(token)
        for one in self._issued:
            found = found or await one.caller(token)
        if found is None:
            raise Unauthenticated
        return found


class TokenFiles:
    """The tokens of the state directory: their hash decides, compared in constant time."""

    def __init__(self, owner: Caller | None, tokens: Mapping[str, Caller]) -> None:
        self._owner = owner
        self._tokens = [(_digest(token), caller) for token, caller in tokens.items()]

    async def caller(self, token: str | None) -> Caller:
        """The owner without a token, else the token's caller."""
        if token is None:
            return self.local()
        found = self.find(token)
        if found is None:
            raise Unauthenticated
        return found

    def local(self) -> Caller:
        """Who calls without a token; raises Unauthenticated where many users can connect."""
        if self._owner is None:
            raise Unauthenticated
        return self._owner

    def find(self, token: str | None) -> Caller | None:
        """The caller of a token of the files."""
        given = _digest(token or "")
        found = None
        for digest, caller in self._tokens:
            if hmac.compare_digest(digest, given):
                found = caller
        return found


def owner(principal: str) -> Caller:
    """The local owner: everything but approving what its own programs asked for (R123)."""
    return Caller(principal, SCOPES - {"permission:approve", "admin:*"}, _OWNER)


def approver(principal: str) -> Caller:
    """The person behind the owner: answers what waits for approval and administers tokens."""
    return Caller(
        principal, frozenset({"permission:approve", "task:read", "token:manage"}), _APPROVER
    )


def is_owner(caller: Caller) -> bool:
    """Whether the credential is one of the two in the state directory, or the owner's socket."""
    return caller.credential_id in (_OWNER, _APPROVER)


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
