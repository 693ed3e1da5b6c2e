"""Ports about who may do what and who holds what. Part of application/ports.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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


@dataclass(frozen=True, slots=True)
class Holding:
    """What a principal has in the store (S-20).

    `artifact_bytes` counts artifacts of all its tasks, `webhooks` has the number of webhooks of
    each open task that has any.
    """

    open_tasks: int = 0
    artifact_bytes: int = 0
    webhooks: Mapping[str, int] = field(default_factory=dict)


class Holdings(Protocol):
    """What principals hold; asked when the daemon starts and when it forgets tasks."""

    async def holdings(self, exempt: Collection[str]) -> Mapping[str, Holding]:
        """Of every principal that holds something and is not exempt."""
        ...

    async def artifact_bytes(self, task_ids: Sequence[str]) -> Mapping[str, int]:
        """Bytes of the artifacts of these tasks, by principal; those without any may be absent."""
        ...
