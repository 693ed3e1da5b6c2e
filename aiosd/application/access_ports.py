"""Ports about who may do what. Part of application/ports.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.access_writes import AccessToken
    from aiosd.domain.permission import Grant


class AccessRecords(Protocol):
    """Grants and tokens; there are few, so they are read as a whole."""

    async def grants(self) -> Sequence[Grant]:
        """Every grant that was not dropped, by id."""
        ...

    async def tokens(self) -> Sequence[AccessToken]:
        """Every access token, ended ones included, by id."""
        ...
