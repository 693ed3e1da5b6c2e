"""Instances: the runtimes that providers are, as last projected, and which session is which."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiosd.application import json_text
from aiosd.application.errors import InstanceNotFound, PermissionDenied
from aiosd.application.ports import CommitConflict
from aiosd.application.writes import PutInstance
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.operation_ledger import RuntimeStore
    from aiosd.application.ports import Clock, Schemas
    from aiosd.application.sessions import Session, Sessions
    from aiosd.domain.instance import Declaration

#: Splits the id of an agent or a conversation into its instance and its name there.
SEPARATOR = ":"


class Instances:
    """The instance registry. All instances are kept in memory: one a provider."""

    def __init__(
        self, store: RuntimeStore, sessions: Sessions, schemas: Schemas, clock: Clock
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._schemas = schemas
        self._clock = clock
        self._known: dict[str, Instance] = {}
        self._attached: dict[str, Session] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def load(self) -> None:
        """Read them all: at the start, and when it is not known what the store has."""
        self._known = {one.id: one for one in await self._store.instances()}

    def all(self) -> Sequence[Instance]:
        """Every instance that ever attached, by id."""
        return [self._known[one] for one in sorted(self._known)]

    def get(self, instance_id: str) -> Instance:
        """An instance by id. Raises InstanceNotFound."""
        found = self._known.get(instance_id)
        if found is None:
            raise InstanceNotFound
        return found

    def of_target(self, scope: str, target_id: str) -> Instance:
        """The instance that executes what is asked of a target. Raises InstanceNotFound.

        For scope `instance` the id is the instance's. Agents and conversations live inside an
        instance: their id is `INSTANCE:NAME`; without a colon it is the instance's own id, or a
        name inside the only instance that there is.
        """
        if scope == "instance":
            return self.get(target_id)
        prefix, colon, _ = target_id.partition(SEPARATOR)
        if prefix in self._known:
            return self._known[prefix]
        if not colon and len(self._known) == 1:
            return next(iter(self._known.values()))
        raise InstanceNotFound

    def session(self, instance_id: str) -> Session | None:
        """The connected session that is this instance now."""
        session = self._attached.get(instance_id)
        if session is None or self._sessions.get(session.id) is not session:
            return None
        return session if session.connected else None

    def is_current(self, session: Session, said: Declaration) -> bool:
        """Nobody attached as this instance since."""
        return self._attached.get(said.instance_id) is session

    def lock(self, instance_id: str) -> asyncio.Lock:
        """Held while the state of an instance is read, judged and replaced."""
        return self._locks.setdefault(instance_id, asyncio.Lock())

    def problem(self, instance: Instance, state: str) -> str:
        """Why a reported state cannot be projected; empty if it can."""
        try:
            value = json_text.parse_object(state, "state")
        except ArgumentInvalid as refusal:
            return str(refusal)
        schema = instance.state_schema
        problem = self._schemas.problem(schema, value) if schema else ""
        return f"state: {problem}" if problem else ""

    def check(self, said: Declaration, principal: str) -> None:
        """Refuse a declaration that can never be taken, before its session is opened.

        Raises ArgumentInvalid for a schema that is none, or for a first state that breaks it;
        PermissionDenied for an id that is another principal's.
        """
        if said.state_schema and (problem := self._schemas.check(said.state_schema)):
            raise ArgumentInvalid("hello.instance.state_schema", problem)
        known = self._known.get(said.instance_id)
        if known is not None and known.principal != principal:
            raise PermissionDenied("hello.instance.instance_id: belongs to another principal")
        if known is None and (problem := self.problem(_first(said, principal, 0), said.state)):
            raise ArgumentInvalid("hello.instance.state", problem)

    async def attach(self, session: Session, said: Declaration) -> bool:
        """The session is this instance from now on; the newest session wins.

        A state that differs from the projected one is a new revision (design.md 16). One that
        breaks the schema is not projected and the earlier one stays: False.
        """
        self._attached[said.instance_id] = session
        async with self.lock(said.instance_id):
            while True:
                before = self._known.get(said.instance_id)
                after, good = self._declared(before, said, session.principal)
                if after == before:
                    return good
                expected = before.revision if before is not None else 0
                try:
                    await self._store.commit([PutInstance(after, expected)])
                except CommitConflict:
                    await self.load()  # a commit before this one was thought to have failed
                    continue
                self._known[after.id] = after
                return good

    def _declared(
        self, before: Instance | None, said: Declaration, principal: str
    ) -> tuple[Instance, bool]:
        now = self._clock.now()
        if before is None:
            return _first(said, principal, now), True
        after = before.declared(said)
        good = not self.problem(after, said.state)
        if good and not _same(before.state, said.state):
            after = after.projected(said.state, now)
        return after, good

    async def advance(self, instance_id: str, state: str) -> None:
        """Project a good state by itself; nothing if it is the projected one already."""
        async with self.lock(instance_id):
            before = self.get(instance_id)
            if not _same(before.state, state):
                after = before.projected(state, self._clock.now())
                await self._store.commit([PutInstance(after, before.revision)])
                self._known[after.id] = after

    def put(self, after: Instance) -> None:
        """A new state was committed together with an operation."""
        self._known[after.id] = after

    def lose(self, session: Session) -> None:
        """The session is over."""
        for instance_id in [one for one, held in self._attached.items() if held is session]:
            del self._attached[instance_id]


def _first(said: Declaration, principal: str, now: int) -> Instance:
    return Instance(
        id=said.instance_id,
        name=said.name,
        principal=principal,
        state=said.state,
        state_schema=said.state_schema,
        methods=said.methods,
        revision=1,
        update_time=now,
    )


def _same(one: str, other: str) -> bool:
    """Whether two JSON texts mean the same."""
    return one == other or json.loads(one) == json.loads(other)
