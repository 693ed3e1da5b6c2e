"""The capability registry: what was ever offered, and who offers it now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiosd.application.errors import ArgumentsRejected, CapabilityNotFound
from aiosd.application.writes import PutCapability
from aiosd.domain.errors import ArgumentInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aiosd.application.ports import Clock, Registry, Schemas, Store
    from aiosd.application.sessions import Sessions
    from aiosd.domain.capability import Capability


class Capabilities:
    """In memory as a whole: there are few, and every create needs one."""

    def __init__(
        self, store: Store, registry: Registry, sessions: Sessions, schemas: Schemas, clock: Clock
    ) -> None:
        self._store = store
        self._registry = registry
        self._sessions = sessions
        self._schemas = schemas
        self._clock = clock
        self._known: dict[str, Capability] = {}

    async def load(self) -> None:
        """Read what earlier processes remembered."""
        self._known = {one.id: one for one in await self._registry.capabilities()}

    def all(self) -> Sequence[Capability]:
        """Every capability, by id."""
        return [self._known[one] for one in sorted(self._known)]

    def get(self, capability_id: str) -> Capability:
        """One by id; raises CapabilityNotFound."""
        found = self._known.get(capability_id)
        if found is None:
            raise CapabilityNotFound(
                f"capability {capability_id[:200]} is not known", {"capability_id": capability_id}
            )
        return found

    def providers(self, capability_id: str) -> int:
        """Connected providers that offer it now."""
        return sum(
            1
            for one in self._sessions.all()
            if one.connected and capability_id in one.capability_ids
        )

    async def remember(self, offered: Iterable[Capability]) -> None:
        """Store what a provider offers. Raises ArgumentInvalid for a schema that is none."""
        changed: list[Capability] = []
        for one in offered:
            for field in ("input_schema", "output_schema"):
                schema = getattr(one, field)
                if schema and (problem := self._schemas.check(schema)):
                    raise ArgumentInvalid(f"capabilities.{one.id}.{field}", problem)
            known = self._known.get(one.id)
            if known is None or replace(known, update_time=0) != replace(one, update_time=0):
                changed.append(replace(one, update_time=self._clock.now()))
        if changed:
            await self._store.commit([PutCapability(one) for one in changed])
            self._known.update({one.id: one for one in changed})

    def check_arguments(self, capability: Capability, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsRejected unless the arguments fit the input schema (R014)."""
        if not capability.input_schema:
            return
        problem = self._schemas.problem(capability.input_schema, arguments)
        if problem:
            raise ArgumentsRejected(
                f"arguments: {problem}", {"field": "arguments", "problem": problem}
            )
