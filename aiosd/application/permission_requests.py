"""The use cases of PermissionService: ask ahead of use, list, take back (R122).

A request is a task that waits for an approval and that nobody executes: it is durable, listed
and answered like everything else that waits for a person.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aiosd.application.access_writes import DropGrant
from aiosd.application.errors import ClientSessionNotFound, GrantNotFound
from aiosd.application.permissions import APPROVE, REQUEST_CAPABILITY
from aiosd.domain import lifecycle, waits
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.interruption import NeedKind
from aiosd.domain.permission import (
    Decision,
    Grant,
    GrantDuration,
    Lifetime,
    Need,
    Verdict,
    confirmations_of,
    lifetime_of,
)
from aiosd.domain.state import TaskState
from aiosd.domain.task import TaskRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.access import Caller
    from aiosd.application.audit import Audit
    from aiosd.application.capabilities import Capabilities
    from aiosd.application.control import Control
    from aiosd.application.grants import Grants
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.permissions import Permissions
    from aiosd.application.ports import Clock, Ids, Registry, Store
    from aiosd.application.writes import Write
    from aiosd.domain.capability import Capability
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

MOST_WISHES = 20
LONGEST_TEXT = 1024
#: What a request waits when approvals have no bound.
LONGEST_WAIT_MS = 600_000


@dataclass(frozen=True, slots=True)
class Wish:
    """One permission asked for; an empty id means each that the capability needs."""

    permission_id: str = ""
    scope: str = ""
    lifetime: Lifetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The decision; `reason` is user_declined, timeout, policy or canceled when it is no."""

    granted: bool
    grants: tuple[Grant, ...] = ()
    reason: str = ""


class PermissionRequests:
    """What programs do about permissions."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        ledger: Ledger,
        grants: Grants,
        permissions: Permissions,
        capabilities: Capabilities,
        control: Control,
        audit: Audit,
        ids: Ids,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._registry = registry
        self._ledger = ledger
        self._grants = grants
        self._permissions = permissions
        self._capabilities = capabilities
        self._control = control
        self._audit = audit
        self._ids = ids
        self._clock = clock
        self._limits = limits

    async def request(
        self, caller: Caller, capability_id: str, wishes: Sequence[Wish], session_id: str
    ) -> Asked:
        """Ask, and wait for the decision at most `approval_timeout_ms`.

        Raises CapabilityNotFound, ArgumentInvalid, ClientSessionNotFound.
        """
        caller.require("task:create")
        capability = self._capabilities.get(capability_id)
        if not 1 <= len(wishes) <= MOST_WISHES:
            raise ArgumentInvalid("permissions", f"must be 1..{MOST_WISHES}")
        await self._check_session(caller, session_id)
        whole = self._spelled_out(capability, wishes)
        held: list[Grant] = []
        missing: list[Wish] = []
        settled: list[Wish] = []
        for wish in whole:
            need = self._need(caller, capability, wish, session_id)
            decision = await self._permissions.decide(need)
            if decision.verdict is Verdict.DENY:
                await self._denied(capability, wish)
                return Asked(False, reason="policy")
            held += decision.grants
            (missing if decision.verdict is Verdict.ASK else settled).append(wish)
        if settled:
            await self._had(capability, settled, held)
        if not missing:
            return Asked(True, tuple(held))
        task = await self._ask(caller, capability, missing, session_id)
        wait_ms = self._limits.approval_timeout_ms or LONGEST_WAIT_MS
        ended = await self._control.wait_for_end(task, wait_ms + 1000)
        return await self._decision(ended, held)

    async def grants(self, caller: Caller, session_id: str, capability_id: str) -> Sequence[Grant]:
        """The grants that hold: the caller's own, everybody's for an approver."""
        caller.require("task:read")
        ids: tuple[str, ...] = ()
        if capability_id:
            ids = self._capabilities.get(capability_id).permission_ids
        return [
            one
            for one in sorted(await self._grants.alive(), key=lambda one: one.id)
            if (one.principal == caller.principal or caller.may(APPROVE))
            and (not session_id or one.session_id == session_id)
            and (not ids or one.permission_id in ids)
        ]

    async def revoke(self, caller: Caller, grant_id: str, capability_id: str) -> int:
        """Take grants back, at once; returns how many. Raises GrantNotFound, ArgumentInvalid."""
        if not caller.may(APPROVE):
            caller.require("task:control")
        if bool(grant_id) == bool(capability_id):
            raise ArgumentInvalid("grant_id", "or capability_id is required, and not both")
        found = await self.grants(
            replace(caller, scopes=caller.scopes | {"task:read"}), "", capability_id
        )
        if grant_id:
            found = [one for one in found if one.id == grant_id]
            if not found:
                raise GrantNotFound
        if found:
            details = {
                "grants": [one.id for one in found],
                "permissions": sorted({one.permission_id for one in found}),
                "by": caller.principal,
            }
            record = self._audit.of("permission.revoked", decision="revoked", details=details)
            self._grants.drop(found)  # first: nothing runs on them while the commit is under way
            try:
                await self._store.commit([*(DropGrant(one.id) for one in found), record])
            except BaseException:
                self._grants.doubtful = True
                raise
            self._grants.drop(found)
        return len(found)

    async def record(self, before: Task | None, draft: Draft) -> Sequence[Write]:
        """A question that its task's end leaves without an answer (Ledger recorder, R137)."""
        wait = before.interruption if before is not None else None
        if wait is None or wait.kind is not NeedKind.HUMAN_APPROVAL or not draft.task.terminal:
            return ()
        failure = draft.task.failure
        reason = failure.reason if failure is not None else ""
        answered = draft.task.permitted or reason == "user_declined"
        if before is None or before.state is not TaskState.AUTH_REQUIRED or answered:
            return ()
        details = {
            "permissions": list(wait.auth_request.permissions) if wait.auth_request else [],
            "scope": wait.scope,
            "request_id": wait.interruption_id,
            "for": draft.task.principal,
            "answer": "none",
            "reason": reason or draft.task.state_reason,
        }
        event = "expired" if reason == "wait_expired" else "withdrawn"
        return (
            self._audit.of(
                f"permission.{event}", task=draft.task, decision="denied", details=details
            ),
        )

    # --- inside -----------------------------------------------------------------------------------

    async def _check_session(self, caller: Caller, session_id: str) -> None:
        if not session_id:
            return
        session = await self._registry.client_session(session_id)
        if session is None or session.principal != caller.principal:
            raise ClientSessionNotFound

    def _spelled_out(self, capability: Capability, wishes: Sequence[Wish]) -> list[Wish]:
        policy = self._permissions.policy
        whole: list[Wish] = []
        for at, wish in enumerate(wishes):
            for name in ("scope", "reason"):
                if len(getattr(wish, name)) > LONGEST_TEXT:
                    raise ArgumentInvalid(
                        f"permissions[{at}].{name}", f"must not exceed {LONGEST_TEXT} characters"
                    )
            named = (wish.permission_id,) if wish.permission_id else capability.permission_ids
            for permission_id in named:
                if permission_id not in capability.permission_ids:
                    raise ArgumentInvalid(
                        f"permissions[{at}].permission_id", f"is not needed by {capability.id}"
                    )
                lifetime = lifetime_of(capability.level, wish.lifetime, policy)
                whole.append(replace(wish, permission_id=permission_id, lifetime=lifetime))
        return whole

    def _need(self, caller: Caller, capability: Capability, wish: Wish, session_id: str) -> Need:
        return Need(
            principal=caller.principal,
            permission_ids=(wish.permission_id,),
            level=capability.level,
            scope=wish.scope,
            tool_id=capability.tool,
            session_id=session_id,
        )

    async def _ask(
        self, caller: Caller, capability: Capability, wishes: Sequence[Wish], session_id: str
    ) -> Task:
        said: list[dict[str, Any]] = [
            {
                "permission_id": one.permission_id,
                "level": capability.level.name.lower(),
                "scope": one.scope,
                "duration": _spelled(one.lifetime),
            }
            for one in wishes
        ]
        arguments = {
            "capability_id": capability.id,
            "tool_id": capability.tool,
            "permissions": said,
        }
        need = Need(
            principal=caller.principal,
            permission_ids=tuple(dict.fromkeys(one.permission_id for one in wishes)),
            level=capability.level,
            scope=", ".join(dict.fromkeys(one.scope for one in wishes if one.scope)),
            tool_id=capability.tool,
            session_id=session_id,
        )
        decision = Decision(
            Verdict.ASK, need.permission_ids, confirmations=confirmations_of(need.level)
        )
        draft = lifecycle.submit(
            task_id=self._ids.new("task"),
            context_id=self._ids.new("ctx"),
            principal=caller.principal,
            request=TaskRequest(
                capability_id=REQUEST_CAPABILITY,
                tool_id=REQUEST_CAPABILITY,
                arguments=json.dumps(arguments, ensure_ascii=False),
                session_id=session_id,
                credential_id=caller.credential_id,
            ),
            now=self._clock.now(),
        )
        reason = "; ".join(one.reason for one in wishes if one.reason)
        prompt = f"Let {caller.principal} use {capability.id}?"
        wait = self._permissions.wait_for(need, decision, prompt, reason)
        waits.ask_approval(draft, wait)
        return await self._ledger.insert(draft, [self._permissions.asked(draft.task, wait)])

    async def _decision(self, task: Task, held: Sequence[Grant]) -> Asked:
        if task.state is TaskState.COMPLETED:
            ids = set(json.loads(task.result or "{}").get("grant_ids", ()))
            made = [one for one in await self._grants.alive() if one.id in ids]
            return Asked(True, (*held, *made))
        if task.state is TaskState.CANCELED:
            return Asked(False, reason="canceled")
        declined = task.failure is not None and task.failure.reason == "user_declined"
        return Asked(False, reason="user_declined" if declined else "timeout")

    async def _had(
        self, capability: Capability, wishes: Sequence[Wish], held: Sequence[Grant]
    ) -> None:
        """Record what was asked for and needed nobody's answer (R137)."""
        details = {
            "permissions": [one.permission_id for one in wishes],
            "level": capability.level.name.lower(),
            "scope": ", ".join(dict.fromkeys(one.scope for one in wishes if one.scope)),
            "grants": [one.id for one in held],
            "answer": "held" if held else "granted by policy",
        }
        await self._audit.note(
            "permission.requested", "allowed", details, capability_id=capability.id
        )

    async def _denied(self, capability: Capability, wish: Wish) -> None:
        details = {
            "permissions": [wish.permission_id],
            "level": capability.level.name.lower(),
            "scope": wish.scope,
            "answer": "denied by policy",
        }
        await self._audit.note("permission.denied", "denied", details, capability_id=capability.id)


def _spelled(lifetime: Lifetime | None) -> str:
    found = lifetime or Lifetime()
    if found.duration is GrantDuration.TIMED:
        return f"timed:{found.ms // 1000}"
    return found.duration.name.lower()
