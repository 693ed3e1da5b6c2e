"""Grants and access tokens in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosd.adapters.sqlite import rows
from aiosd.application.access_writes import AccessToken
from aiosd.domain.permission import Grant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from aiosd.adapters.sqlite.readers import Readers
    from aiosd.adapters.sqlite.transaction import Change, Transaction
    from aiosd.application.access_writes import DropGrant, PutGrant, PutToken


def put_grant(write: PutGrant) -> Change:
    """Insert or replace a grant."""
    columns = (write.grant.id, rows.encode(write.grant))

    def change(tx: Transaction) -> None:
        tx.execute("INSERT OR REPLACE INTO permission_grants VALUES (?, ?)", columns)

    return change


def drop_grant(write: DropGrant) -> Change:
    """Delete a grant."""

    def change(tx: Transaction) -> None:
        tx.execute("DELETE FROM permission_grants WHERE id = ?", (write.grant_id,))

    return change


def put_token(write: PutToken) -> Change:
    """Insert or replace a token."""
    columns = (write.token.id, rows.encode(write.token))

    def change(tx: Transaction) -> None:
        tx.execute("INSERT OR REPLACE INTO access_tokens VALUES (?, ?)", columns)

    return change


def _grants(connection: apsw.Connection) -> list[Grant]:
    found: list[Any] = connection.execute(
        "SELECT body FROM permission_grants ORDER BY id"
    ).fetchall()
    return [rows.decode(Grant, body) for (body,) in found]


def _tokens(connection: apsw.Connection) -> list[AccessToken]:
    found: list[Any] = connection.execute("SELECT body FROM access_tokens ORDER BY id").fetchall()
    return [rows.decode(AccessToken, body) for (body,) in found]


class AccessReads:
    """The port AccessRecords, for a store with readers."""

    _readers: Readers

    async def grants(self) -> Sequence[Grant]:
        """Every grant that was not dropped, by id."""
        return await self._readers.read(_grants)

    async def tokens(self) -> Sequence[AccessToken]:
        """Every access token, ended ones included, by id."""
        return await self._readers.read(_tokens)
