"""Who calls, and the one place that decides whose tasks they may touch (S-18, H05)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiosd.application.errors import PermissionDenied, TaskNotFound

if TYPE_CHECKING:
    from aiosd.domain.task import Task

#: What a bearer may do (S-07). `admin:*` implies every other.
SCOPES = frozenset(
    {
        "task:create",
        "task:read",
        "task:control",
        "task:input",
        "provider:attach",
        "webhook:manage",
        "permission:approve",
        "audit:read",
        "admin:*",
    }
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is on the other end of a call. An empty principal matches nobody (S-18)."""

    principal: str
    scopes: frozenset[str] = frozenset()

    def require(self, scope: str) -> None:
        """Raise PermissionDenied unless the caller holds `scope` or administers."""
        if scope not in self.scopes and "admin:*" not in self.scopes:
            raise PermissionDenied(f"scope {scope} is required", {"scope": scope})


def own(caller: Caller, task: Task | None) -> Task:
    """The task if it is the caller's; a foreign one is answered like an absent one (R019)."""
    if task is None or not caller.principal or task.principal != caller.principal:
        raise TaskNotFound
    return task
