"""Grants and access tokens in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosd.application.access_writes import AccessToken, AccessWrite, DropGrant, PutGrant, PutToken
from aiosd.domain.permission import Grant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.adapters.memory.records import Records


@dataclass(slots=True)
class Access:
    """What the store in memory keeps of both."""

    grants: dict[str, Grant] = field(default_factory=dict)
    tokens: dict[str, AccessToken] = field(default_factory=dict)


def apply(records: Records, kept: Access, write: AccessWrite) -> None:
    """Do one write; `records` undo it."""
    match write:
        case PutGrant():
            records.put(kept.grants, write.grant.id, write.grant)
        case DropGrant():
            if write.grant_id in kept.grants:
                records.delete(kept.grants, write.grant_id)
        case PutToken():
            records.put(kept.tokens, write.token.id, write.token)


class AccessReads:
    """The port AccessRecords."""

    _access: Access

    async def grants(self) -> Sequence[Grant]:
        """Every grant that was not dropped, by id."""
        return [grant for _, grant in sorted(self._access.grants.items())]

    async def tokens(self) -> Sequence[AccessToken]:
        """Every access token, by id."""
        return [token for _, token in sorted(self._access.tokens.items())]
