"""AIOS sessions of client programs: they group calls; async tasks outlive them (X41)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.application import json_text
from aiosd.application.errors import ClientSessionExpired, ClientSessionNotFound
from aiosd.application.ports import TaskQuery
from aiosd.application.writes import ClientSession, DropClientSession, PutClientSession
from aiosd.domain import lifecycle
from aiosd.domain.errors import Refusal
from aiosd.domain.state import TERMINAL, TaskState

if TYPE_CHECKING:
    from aiosd.application.access import Caller
    from aiosd.application.audit import Audit
    from aiosd.application.control import Control
    from aiosd.application.ledger import Ledger
    from aiosd.application.ports import Clock, Ids, Registry, Store
    from aiosd.domain.task import Task

HOUR_MS = 3_600_000
PAGE = 200
OPEN = tuple(state for state in TaskState if state not in TERMINAL)


class ClientSessions:
    """Open, read, renew and close."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        ledger: Ledger,
        control: Control,
        audit: Audit,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._ledger = ledger
        self._control = control
        self._audit = audit
        self._ids = ids
        self._clock = clock

    async def create(self, caller: Caller, attributes: str, lifetime_ms: int) -> ClientSession:
        """Open a session; lifetime 0 means an hour. Raises ArgumentInvalid."""
        json_text.parse_object(attributes, "attributes")
        now, lifetime = self._clock.now(), lifetime_ms or HOUR_MS
        session = ClientSession(
            self._ids.new("sess"), caller.principal, attributes, now, now + lifetime, lifetime
        )
        details = {"session_id": session.id, "lifetime_ms": lifetime}
        made = self._audit.of("session.created", details=details)
        await self._store.commit([PutClientSession(session), made])
        return session

    async def get(self, caller: Caller, session_id: str, *, renew: bool) -> ClientSession:
        """A session of the caller, its end moved if asked.

        Raises ClientSessionNotFound, ClientSessionExpired.
        """
        found = await self._registry.client_session(session_id)
        if found is None or not caller.principal or found.principal != caller.principal:
            raise ClientSessionNotFound
        now = self._clock.now()
        if found.expire_time <= now:
            raise ClientSessionExpired
        # Moving the end by a little is not worth a commit with every call.
        if renew and found.expire_time - now < found.lifetime_ms * 9 // 10:
            found = replace(found, expire_time=now + found.lifetime_ms)
            await self._store.commit([PutClientSession(found)])
        return found

    async def close(
        self, caller: Caller, session_id: str, reason: str, grace_ms: int
    ) -> tuple[int, int]:
        """End a session: its unfinished synchronous tasks are canceled after the grace.

        Returns how long it lived (ms) and how many tasks were canceled.
        """
        session = await self.get(caller, session_id, renew=False)
        unfinished = await self._unfinished(session)
        if grace_ms:
            waits = (self._control.wait_for_end(task, grace_ms) for task in unfinished)
            await asyncio.gather(*waits)
        canceled = 0
        for task in unfinished:
            try:
                await self._ledger.change(
                    task.id, lambda draft: lifecycle.cancel(draft, reason or "session closed")
                )
            except Refusal:
                continue  # it ended by itself
            canceled += 1
        details = {"session_id": session_id, "reason": reason, "canceled": canceled}
        ended = self._audit.of("session.closed", details=details)
        await self._store.commit([DropClientSession(session_id), ended])
        return self._clock.now() - session.create_time, canceled

    async def _unfinished(self, session: ClientSession) -> list[Task]:
        found: list[Task] = []
        query = TaskQuery(principals=(session.principal,), states=OPEN, limit=PAGE)
        while True:
            page = await self._store.tasks(query)
            found += [
                one
                for one in page.tasks
                if one.request.session_id == session.id and one.options.synchronous
            ]
            if not page.more:
                return found
            last = page.tasks[-1]
            query = replace(query, after=(last.create_time, last.id))
