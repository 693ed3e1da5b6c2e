"""The gate before dispatch, and the person's answers to it (wire.md 1.9, X35, X36).

A task that needs a confirmation waits in AUTH_REQUIRED before any provider hears of it. Once it
was allowed it is queued again and never asked about again.
"""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiosd.application.errors import OutcomeUnknown, PermissionDenied
from aiosd.application.needs import Needs
from aiosd.domain import failure as failures
from aiosd.domain import lifecycle, waits
from aiosd.domain.capability import PermissionLevel
from aiosd.domain.errors import AuthRejected
from aiosd.domain.interruption import (
    AuthRequest,
    AuthResponse,
    AuthType,
    Interruption,
    NeedKind,
    check_auth,
)
from aiosd.domain.permission import (
    ALWAYS_ASKED,
    Decision,
    Grant,
    Lifetime,
    Need,
    Policy,
    Verdict,
    decide,
    lifetime_of,
)
from aiosd.domain.state import TaskState
from aiosd.domain.task import Phase, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiosd.application.access import Caller
    from aiosd.application.audit import Audit
    from aiosd.application.capabilities import Capabilities
    from aiosd.application.grants import Grants
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.ports import Clock, Ids
    from aiosd.application.slots import Slots
    from aiosd.application.writes import Write
    from aiosd.domain.draft import Draft

APPROVE = "permission:approve"
#: The capability of the tasks that stand for `RequestPermission`; nobody provides it.
REQUEST_CAPABILITY = "aios.permission.request"


@dataclass(frozen=True, slots=True)
class Answered:
    """The task after an answer; of two confirmations the first returns the id for the second."""

    task: Task
    confirmations: int = 0
    confirmation_id: str = ""


@dataclass(frozen=True, slots=True)
class Ends:
    """What a confirmed or declined wait comes to, beside the state of its task."""

    grants: tuple[Grant, ...] = ()
    result: str | None = None


class Permissions:
    """Decides at dispatch, asks, and takes answers."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        grants: Grants,
        capabilities: Capabilities,
        slots: Slots,
        audit: Audit,
        policy: Policy,
        key: bytes,
        ids: Ids,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._ledger = ledger
        self._grants = grants
        self._needs = Needs(capabilities)
        self._slots = slots
        self._audit = audit
        self.policy = policy
        self._key = key
        self._ids = ids
        self._clock = clock
        self._limits = limits
        #: Grants that come into being with an approval that is under way.
        self._promised: dict[str, tuple[Grant, ...]] = {}

    def committed(self, before: Task | None, draft: Draft) -> None:
        """The grants of an approval hold before anybody hears of it (Ledger observer)."""
        was = before is not None and before.permitted
        if draft.task.permitted and not was:
            self._grants.put(self._promised.pop(draft.task.id, ()))

    # --- the gate ---------------------------------------------------------------------------------

    async def admit(self, task: Task) -> Task | None:
        """The task if it may be offered now; None if it was asked about or refused."""
        if task.permitted or task.attempt.number:
            return task
        need = self._needs.of(task)
        decision = await self.decide(need)
        match decision.verdict:
            case Verdict.DENY:
                return await self._deny(task, need, decision)
            case Verdict.ASK:
                return await self._ask(task, need, decision)
            case Verdict.RUN if need.level is PermissionLevel.PUBLIC:
                return task
        return await self._permit(task, need, decision)

    async def decide(self, need: Need) -> Decision:
        """What the policy and the grants say."""
        held: Sequence[Grant] = ()
        if need.level is not PermissionLevel.PUBLIC and self._grants.of(need.principal):
            held = await self._grants.alive()
        return decide(self.policy, need, held, self._clock.now())

    async def _permit(self, task: Task, need: Need, decision: Decision) -> Task | None:
        used = [self._grants.used(one, task.id) for one in decision.grants]
        details = {**_said(need), "grants": [one.id for one in used]}
        by_policy = "granted" if not used else "used"

        def extra(draft: Draft) -> Sequence[Write]:
            return [
                *self._grants.writes(used),
                self._audit.of(f"permission.{by_policy}", task=draft.task, details=details),
            ]

        return await self._commit(task, waits.permit, extra, used)

    async def _deny(self, task: Task, need: Need, decision: Decision) -> Task | None:
        details = {**_said(need), "permission": ",".join(decision.permission_ids)}
        failure = failures.permission_denied("policy_denied", details)

        def extra(draft: Draft) -> Sequence[Write]:
            said = {**details, "answer": "denied by policy"}
            return [
                self._audit.of(
                    "permission.denied", task=draft.task, decision="denied", details=said
                )
            ]

        await self._commit(task, lambda draft: lifecycle.refuse_dispatch(draft, failure), extra)
        return None

    async def _ask(self, task: Task, need: Need, decision: Decision) -> Task | None:
        wait = self.wait_for(need, decision, f"Allow {task.request.capability_id}?")

        def extra(draft: Draft) -> Sequence[Write]:
            return [self.asked(draft.task, wait)]

        await self._commit(task, lambda draft: waits.ask_approval(draft, wait), extra)
        return None

    async def _commit(
        self,
        task: Task,
        command: Callable[[Draft], None],
        extra: Callable[[Draft], Sequence[Write]],
        grants: Sequence[Grant] = (),
    ) -> Task | None:
        def still(draft: Draft) -> None:
            waiting = draft.task.phase is Phase.QUEUED and not draft.task.permitted
            if waiting and not draft.task.terminal:
                command(draft)

        try:
            done = await self._ledger.change(task.id, still, extra=extra)
        except OutcomeUnknown:
            self._grants.doubtful = True
            raise
        if done.task.permitted:
            self._grants.put(grants)
        return done.task

    # --- asking -----------------------------------------------------------------------------------

    def wait_for(
        self, need: Need, decision: Decision, prompt: str, reason: str = ""
    ) -> Interruption:
        """The approval that is needed, as everybody sees it."""
        now, timeout = self._clock.now(), self._limits.approval_timeout_ms
        level = need.level.name.lower()
        where = f", scope {need.scope}" if need.scope else ""
        return Interruption(
            interruption_id=self._ids.new("int"),
            kind=NeedKind.HUMAN_APPROVAL,
            action=decision.permission_ids[0],
            prompt=f"{prompt} (permission level {level}{where})",
            auth_request=AuthRequest(
                type=AuthType.APPROVAL,
                reason=reason,
                permission_level=level,
                permissions=decision.permission_ids,
                permission_scope=need.scope,
                confirmations_required=decision.confirmations,
            ),
            satisfiable_by=(APPROVE,),
            scope=need.scope,
            create_time=now,
            expire_time=now + timeout if timeout else 0,
            timeout_ms=timeout,
        )

    def asked(self, task: Task, wait: Interruption) -> Write:
        """What the audit keeps of a question (R137)."""
        asked = wait.auth_request
        level = PermissionLevel[asked.permission_level.upper()] if asked else PermissionLevel.LOW
        ids = asked.permissions if asked else ()
        details: dict[str, Any] = {
            "permissions": list(ids),
            "level": level.name.lower(),
            "scope": wait.scope,
            "tool_id": task.request.tool_id,
            "session_id": task.request.session_id,
            "for": task.principal,
            "request_id": wait.interruption_id,
        }
        if any(self.policy.ignored(one, level) for one in ids):
            details["warning"] = "auto_grant never applies to high and critical: ignored"
        return self._audit.of("permission.requested", task=task, decision="asked", details=details)

    # --- answering --------------------------------------------------------------------------------

    async def answer(
        self, caller: Caller, task: Task, wait: Interruption, response: AuthResponse
    ) -> Answered:
        """Approve or deny. Raises PermissionDenied, AuthRejected, TaskStateInvalid."""
        caller.require(APPROVE)
        asked = wait.auth_request
        if asked is None:
            raise AuthRejected("no authorization is asked for")
        check_auth(asked, response)
        level = PermissionLevel[asked.permission_level.upper()]
        creator = task.request.credential_id
        if response.approve and level in ALWAYS_ASKED and caller.credential_id == creator:
            raise PermissionDenied(
                "the credential that created the task cannot approve it", {"scope": APPROVE}
            )
        ends = self._ends(task, wait, caller.principal) if response.approve else Ends()
        state: dict[str, Any] = {}

        def command(draft: Draft, slot: bool) -> None:
            state.clear()
            current = waits.open_wait(
                draft.task, TaskState.AUTH_REQUIRED, "authenticate", wait.interruption_id
            )
            if not response.approve:
                lifecycle.decline(draft, current, caller.principal)
                state["event"] = "permission.denied"
                return
            state["given"] = self._count(current, response)
            if state["given"] < asked.confirmations_required:
                waits.note_confirmation(draft, state["given"])
                state["event"] = "permission.confirmed"
                return
            state["event"] = "permission.granted"
            self._promised[task.id] = ends.grants  # under the task's lock: nobody else's answer
            slot = slot or ends.result is not None
            waits.approve(draft, wait.interruption_id, caller.principal, slot=slot)
            if ends.result is not None:
                lifecycle.complete(draft, ends.result)

        def extra(draft: Draft) -> Sequence[Write]:
            granted = ends.grants if state["event"] == "permission.granted" else ()
            details = {
                "permissions": list(asked.permissions),
                "level": asked.permission_level,
                "scope": wait.scope,
                "request_id": wait.interruption_id,
                "answer": "approve" if response.approve else "deny",
                "by": caller.principal,
                "answered_with": caller.credential_id,
                "for": task.principal,
                "grants": [one.id for one in granted],
            }
            decision = "allowed" if response.approve else "denied"
            record = self._audit.of(
                state["event"], task=draft.task, decision=decision, details=details
            )
            return [*self._grants.writes(granted), record]

        slot = self._slots.reserve(task)
        try:
            done = await self._ledger.change(
                task.id, lambda draft: command(draft, slot), extra=extra
            )
        except OutcomeUnknown:
            self._grants.doubtful = True
            raise
        finally:
            if self._promised.get(task.id) is ends.grants:
                del self._promised[task.id]
            if slot:
                self._slots.release(task.id)
        given = state.get("given", 0) if asked.confirmations_required > 1 else 0
        more = state["event"] == "permission.confirmed"
        return Answered(done.task, given, self._confirmation_id(wait) if more else "")

    def _count(self, current: Interruption, response: AuthResponse) -> int:
        given = current.auth_request.confirmations if current.auth_request else 0
        expected = self._confirmation_id(current)
        if given and not hmac.compare_digest(expected.encode(), response.confirmation_id.encode()):
            raise AuthRejected(
                "auth_response.confirmation_id: must be the one that the first answer returned",
                {"field": "auth_response.confirmation_id"},
            )
        return given + 1

    def _confirmation_id(self, wait: Interruption) -> str:
        message = f"confirmation:{wait.interruption_id}".encode()
        raw = hmac.digest(self._key, message, "sha256")[:18]
        return f"confirm-{base64.urlsafe_b64encode(raw).decode()}"

    def _ends(self, task: Task, wait: Interruption, by: str) -> Ends:
        """The grants that an approval makes, and the result of a task that only asked for them."""
        asked = wait.auth_request
        if asked is None:
            return Ends()
        if task.request.capability_id == REQUEST_CAPABILITY:
            grants = self._wished(task, by)
            ids = [one.id for one in grants]
            return Ends(grants, json.dumps({"granted": True, "grant_ids": ids}))
        need = self._needs.of(task)
        if need.level in ALWAYS_ASKED:
            return Ends()  # for this use alone
        lifetime = lifetime_of(need.level, None, self.policy)
        if lifetime.duration.name in ("ONCE", "TASK"):
            return Ends()
        return Ends(tuple(self._grants.make(need, one, lifetime, by) for one in asked.permissions))

    def _wished(self, task: Task, by: str) -> tuple[Grant, ...]:
        said = json.loads(task.request.arguments)
        made = []
        for wish in said["permissions"]:
            need = Need(
                principal=task.principal,
                permission_ids=(wish["permission_id"],),
                level=PermissionLevel[wish["level"].upper()],
                scope=wish["scope"],
                tool_id=said["tool_id"],
                session_id=task.request.session_id,
            )
            made.append(
                self._grants.make(need, wish["permission_id"], Lifetime.parse(wish["duration"]), by)
            )
        return tuple(made)


def _said(need: Need) -> dict[str, object]:
    return {
        "permissions": list(need.permission_ids),
        "permission_level": need.level.name.lower(),
        "scope": need.scope,
    }
