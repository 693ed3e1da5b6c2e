"""Writes about who may do what: grants and access tokens. Part of application/writes.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiosd.domain.permission import Grant


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A bearer token as it is kept: the hash of its text, never the text (S-08).

    Times are 0 for never. `digest` is SHA-256 in hex.
    """

    id: str
    digest: str
    principal: str
    scopes: tuple[str, ...]
    create_time: int
    expire_time: int = 0
    last_use_time: int = 0
    revoke_time: int = 0

    def alive(self, now: int) -> bool:
        """Neither revoked nor past its time."""
        return not self.revoke_time and (not self.expire_time or now < self.expire_time)


@dataclass(frozen=True, slots=True)
class PutGrant:
    """Insert or replace a grant."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class DropGrant:
    """Delete a grant that ended; harmless when it is gone. The audit keeps its story."""

    grant_id: str


@dataclass(frozen=True, slots=True)
class PutToken:
    """Insert or replace an access token."""

    token: AccessToken


AccessWrite: TypeAlias = PutGrant | DropGrant | PutToken
