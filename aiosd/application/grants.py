"""The grants that hold, in memory beside the store: there are few, and every dispatch asks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.application.access_writes import DropGrant, PutGrant
from aiosd.domain.permission import Grant, GrantDuration, Lifetime, Need, expiry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aiosd.application.access_ports import AccessRecords
    from aiosd.application.ports import Clock, Ids, Registry
    from aiosd.application.writes import Write
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task


class Grants:
    """Keeps what is committed by others: `put` and `drop` follow a commit, never lead it."""

    def __init__(self, records: AccessRecords, registry: Registry, ids: Ids, clock: Clock) -> None:
        self._records = records
        self._registry = registry
        self._ids = ids
        self._clock = clock
        self._held: dict[str, Grant] = {}
        #: Set when a commit about grants had an unknown outcome: read again before the next use.
        self.doubtful = False

    async def load(self) -> None:
        """Read them all."""
        self._held = {one.id: one for one in await self._records.grants()}
        self.doubtful = False

    async def alive(self) -> Sequence[Grant]:
        """Those that hold now, those of sessions that ended left out."""
        if self.doubtful:
            await self.load()
        now = self._clock.now()
        ended: dict[str, bool] = {}
        found = []
        for grant in tuple(self._held.values()):
            if not grant.alive(now):
                continue
            bound = grant.session_id if grant.duration is GrantDuration.SESSION else ""
            if bound and bound not in ended:
                session = await self._registry.client_session(bound)
                ended[bound] = session is None or session.expire_time <= now
            if not (bound and ended[bound]):
                found.append(grant)
        return found

    def of(self, principal: str) -> bool:
        """Whether the principal holds any; spares the dispatch of others the look-up."""
        return self.doubtful or any(one.principal == principal for one in self._held.values())

    def make(self, need: Need, permission_id: str, lifetime: Lifetime, issued_by: str) -> Grant:
        """A new grant for a need; nothing holds until it is committed and `put`."""
        now = self._clock.now()
        session = need.session_id if lifetime.duration is GrantDuration.SESSION else ""
        return Grant(
            id=self._ids.new("grant"),
            permission_id=permission_id,
            level=need.level,
            principal=need.principal,
            duration=lifetime.duration,
            scope=need.scope,
            tool_id=need.tool_id,
            session_id=session,
            issued_by=issued_by,
            create_time=now,
            expire_time=expiry(lifetime, session, now),
        )

    @staticmethod
    def used(grant: Grant, task_id: str) -> Grant:
        """The grant after one more use; one for a task is bound to the first that uses it."""
        bound = task_id if grant.duration is GrantDuration.TASK else grant.task_id
        return replace(grant, use_count=grant.use_count + 1, task_id=bound)

    def writes(self, grants: Iterable[Grant]) -> list[Write]:
        """What makes these durable: a grant that has no use left goes."""
        now = self._clock.now()
        return [PutGrant(one) if one.alive(now) else DropGrant(one.id) for one in grants]

    def put(self, grants: Iterable[Grant]) -> None:
        """These were committed."""
        now = self._clock.now()
        for one in grants:
            if one.alive(now):
                self._held[one.id] = one
            else:
                self._held.pop(one.id, None)

    def drop(self, grants: Iterable[Grant]) -> None:
        """These were revoked."""
        for one in grants:
            self._held.pop(one.id, None)

    async def record(self, before: Task | None, draft: Draft) -> Sequence[Write]:
        """The grants of a task end with it (Ledger recorder)."""
        del before
        return [DropGrant(one.id) for one in self._bound(draft)]

    def committed(self, before: Task | None, draft: Draft) -> None:
        """The task ended (Ledger observer)."""
        del before
        self.drop(self._bound(draft))

    def _bound(self, draft: Draft) -> list[Grant]:
        if not draft.task.terminal or not self._held:
            return []
        task_id = draft.task.id
        return [
            one
            for one in self._held.values()
            if one.duration is GrantDuration.TASK and one.task_id == task_id
        ]
