"""An instance: the runtime that a provider is, as far as the daemon knows it (design.md 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a provider says of its runtime when it attaches.

    `state` and `state_schema` are JSON text; an empty schema means any object.
    """

    instance_id: str
    name: str
    state: str
    state_schema: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """The newest projected state of a runtime; `revision` grows by one with each change of it.

    `principal` owns the id: nobody else may attach as it.
    """

    id: str
    name: str
    principal: str
    state: str
    state_schema: str
    methods: tuple[str, ...]
    revision: int
    update_time: int

    def declared(self, said: Declaration) -> Instance:
        """The instance under what its provider declares now; the state stays as it is."""
        return replace(self, name=said.name, state_schema=said.state_schema, methods=said.methods)

    def projected(self, state: str, now: int) -> Instance:
        """The next revision, with this state."""
        return replace(self, state=state, revision=self.revision + 1, update_time=now)
