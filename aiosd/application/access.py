"""Who calls, and the one place that decides whose tasks they may touch (S-18, H05)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiosd.application.errors import PermissionDenied, TaskNotFound
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.interruption import NeedKind
from aiosd.domain.permission import covers
from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from aiosd.domain.task import Task

ADMIN = "admin:*"
ATTACH = "provider:attach"
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
        "token:manage",
        "admin:*",
    }
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is on the other end of a call. An empty principal matches nobody (S-18)."""

    principal: str
    scopes: frozenset[str] = frozenset()
    #: Names the credential itself; two credentials of one principal differ in it (R123).
    credential_id: str = ""

    def may(self, scope: str) -> bool:
        """Whether the caller holds `scope` or administers."""
        return scope in self.scopes or ADMIN in self.scopes

    def require(self, scope: str) -> None:
        """Raise PermissionDenied unless the caller holds `scope` or administers."""
        if not self.may(scope):
            raise PermissionDenied(f"scope {scope} is required", {"scope": scope})

    def require_offer(self, capability_id: str) -> None:
        """Raise PermissionDenied unless the caller may provide this capability (S-07)."""
        wanted = f"{ATTACH}:{capability_id}"
        bound = (one for one in self.scopes if one.startswith(f"{ATTACH}:"))
        if not self.may(ATTACH) and not any(covers(one, wanted) for one in bound):
            raise PermissionDenied(f"scope {wanted} is required", {"scope": wanted})

    def require_attach(self) -> None:
        """Raise PermissionDenied unless the caller may provide something."""
        if not any(one.startswith(f"{ATTACH}:") for one in self.scopes):
            self.require(ATTACH)


def check_scope(scope: str, field: str) -> None:
    """Raise ArgumentInvalid unless a token may carry this scope."""
    bound = re.fullmatch(r"provider:attach:[a-z0-9_.*-]{1,200}", scope)
    if scope not in SCOPES and not bound:
        known = ", ".join(sorted(SCOPES))
        raise ArgumentInvalid(field, f"must be one of {known} or provider:attach:CAPABILITY")


def waits_for_approval(task: Task) -> bool:
    """Whether an approver, whoever owns the task, may look at it and answer."""
    wait = task.interruption
    asked = wait is not None and wait.kind is NeedKind.HUMAN_APPROVAL
    return task.state is TaskState.AUTH_REQUIRED and asked and not task.resume_pending


def readable(caller: Caller, task: Task | None) -> Task:
    """The task if it is the caller's, or waits for an approval that the caller may give."""
    if task is not None and waits_for_approval(task) and caller.may("permission:approve"):
        return task
    return own(caller, task)


def own(caller: Caller, task: Task | None) -> Task:
    """The task if it is the caller's; a foreign one is answered like an absent one (R019)."""
    if task is None or not caller.principal or task.principal != caller.principal:
        raise TaskNotFound
    return task
