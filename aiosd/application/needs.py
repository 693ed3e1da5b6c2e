"""What a task must be granted before it runs: read from its capability and its arguments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiosd.domain.permission import Need

if TYPE_CHECKING:
    from aiosd.application.capabilities import Capabilities
    from aiosd.domain.capability import Capability
    from aiosd.domain.task import Task

#: JSON Schema annotation: this argument is the resource scope that is asked for.
SCOPE_ANNOTATION = "x-aios-permission-scope"


class Needs:
    """Remembers which argument of a capability is its scope."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._scopes: dict[str, tuple[str, str]] = {}

    def of(self, task: Task) -> Need:
        """What the task needs."""
        capability = self._capabilities.get(task.request.capability_id)
        return Need(
            principal=task.principal,
            permission_ids=capability.permission_ids,
            level=capability.level,
            scope=self._scope(capability, task.request.arguments),
            tool_id=task.request.tool_id,
            task_id=task.id,
            session_id=task.request.session_id,
        )

    def _scope(self, capability: Capability, arguments: str) -> str:
        """The argument that the capability's schema marks as the scope; empty without one."""
        schema = capability.input_schema
        if SCOPE_ANNOTATION not in schema:
            return ""
        known = self._scopes.get(capability.id)
        if known is None or known[0] != schema:
            members = json.loads(schema).get("properties", {})
            marked = [
                name
                for name, member in members.items()
                if isinstance(member, dict) and member.get(SCOPE_ANNOTATION) is True
            ]
            known = self._scopes[capability.id] = (schema, marked[0] if marked else "")
        value = json.loads(arguments).get(known[1]) if known[1] else ""
        return value if isinstance(value, str) else ""
