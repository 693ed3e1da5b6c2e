"""The audit: what is recorded of every change, refusal and end, and how the chain is checked.

Records of a change are part of its commit (R135, R136, R138); a refusal is committed by itself
before it is answered (I43). What a record holds was redacted and is bounded.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiosd.application.errors import RateLimited, Unauthenticated, Unavailable
from aiosd.application.flood import Flood
from aiosd.application.origin import origin
from aiosd.application.ports import CommitUnknown, StoreFull
from aiosd.application.trust_writes import AppendAudit
from aiosd.domain.audit import LONGEST_DETAILS, AuditRecord, Finding, Verifier
from aiosd.domain.state import TERMINAL, TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiosd.application.access import Caller
    from aiosd.application.messages import Refused
    from aiosd.application.ports import Clock, Store
    from aiosd.application.sessions import Session
    from aiosd.application.trust_ports import Anchor, AuditTrail, Redaction
    from aiosd.application.writes import Write
    from aiosd.domain.audit import SealedRecord
    from aiosd.domain.draft import Draft
    from aiosd.domain.errors import Refusal
    from aiosd.domain.operation import Operation
    from aiosd.domain.operation_lifecycle import OperationDraft
    from aiosd.domain.task import StateChange, Task

LONGEST_SUMMARY = 512
PAGE = 500


class Audit:
    """Makes records, lists them, verifies the chain."""

    def __init__(
        self,
        store: Store,
        trail: AuditTrail,
        anchor: Anchor,
        redaction: Redaction,
        clock: Clock,
        key: bytes,
    ) -> None:
        self._store = store
        self._trail = trail
        self._anchor = anchor
        self._redaction = redaction
        self._clock = clock
        self._key = key
        self._flood = Flood(clock)

    # --- records ----------------------------------------------------------------------------------

    async def record(self, before: Task | None, draft: Draft) -> Sequence[Write]:
        """What a change of a task adds to its own commit (Ledger recorder)."""
        records = []
        state = None if before is None else before.state
        if before is None:
            records.append(self._created(draft))
        for change in draft.history:
            if state is not None:
                records.append(self._changed(draft, state, change))
            state = change.state
        if draft.task.resume_pending and (before is None or not before.resume_pending):
            records.append(self._may_go_on(draft))
        records += self._said_of_the_end(before, draft)
        return (AppendAudit(tuple(records)),) if records else ()

    def record_operation(
        self, before: Operation | None, draft: OperationDraft
    ) -> Sequence[AppendAudit]:
        """What a change of a runtime operation adds to its own commit."""
        operation = draft.operation
        request = operation.request
        details: dict[str, Any] = {"operation_id": operation.id, "instance_id": request.instance_id}
        if before is None:
            details |= {"scope": request.scope, "target_id": request.target_id}
            details |= {"method": request.method, "params": request.params}
            return (self.of("operation.created", details=details),)
        asked = operation.cancel_request is not None and before.cancel_request is None
        if before.status is operation.status and before.closed is operation.closed and not asked:
            return ()
        details |= {"old_state": before.status.word, "new_state": operation.status.word}
        if operation.error is not None:
            details["error"] = f"{operation.error.code}: {operation.error.message}"
        changed = before.status is not operation.status
        event = "cancel_requested" if asked else operation.status.word if changed else "closed"
        decision = operation.status.word
        return (self.of(f"operation.{event}", decision=decision, details=details),)

    def of(
        self,
        event: str,
        *,
        task: Task | None = None,
        decision: str = "allowed",
        details: Mapping[str, Any] | None = None,
    ) -> AppendAudit:
        """A record of anything else, to be part of the commit that does it.

        `details` must be JSON values; texts in it are redacted.
        """
        text = self._redaction.document(_dump(dict(details or {})))
        return AppendAudit((self._make(event, task, decision, _bounded(text)),))

    async def refused(
        self, refusal: Refusal, *, task_id: str = "", capability_id: str = ""
    ) -> None:
        """Record that the call under way was refused; what the store cannot take is let go."""
        if isinstance(refusal, Unavailable):
            return  # nobody decided anything
        details: dict[str, Any] = {"reason": refusal.reason, "message": str(refusal)}
        if isinstance(refusal, RateLimited | Unauthenticated):
            omitted = self._flood.passes(origin.get().principal, refusal.reason)
            if omitted is None:
                return
            if omitted:
                details["omitted"] = omitted
        await self.note(
            "call.refused", "refused", details, task_id=task_id, capability_id=capability_id
        )

    async def note(
        self,
        event: str,
        decision: str,
        details: Mapping[str, Any],
        *,
        task_id: str = "",
        capability_id: str = "",
    ) -> None:
        """Commit a record that belongs to no change."""
        text = self._redaction.document(_dump(dict(details)))
        caused = origin.get()
        record = AuditRecord(
            time=self._clock.now(),
            event=event,
            principal=caused.principal,
            method=caused.method,
            task_id=task_id[:128],
            capability_id=capability_id[:256],
            decision=decision,
            details=_bounded(text),
            request_hash=caused.request_hash,
        )
        with suppress(CommitUnknown, StoreFull):  # health says so already
            await self._store.commit([AppendAudit((record,))])

    async def report_refused(self, session: Session, refused: Refused) -> None:
        """Record that a provider's report was refused: it was fenced, or broke the rules."""
        details = {
            "provider": session.name,
            "attempt": refused.attempt,
            "report": refused.number,
            "reason": refused.reason,
            "message": refused.message,
        }
        await self.note("report.refused", "refused", details, task_id=refused.task_id)

    def _created(self, draft: Draft) -> AuditRecord:
        task = draft.task
        request = task.request
        document = self._redaction.document
        members = {
            "arguments": document(request.arguments),
            "metadata": document(request.metadata),
            "context_id": _dump(task.context_id),
        }
        if request.message is not None:
            said = [self._redaction.text(part.content) for part in request.message.parts]
            members["message"] = _dump(said)
        if request.retried_from:
            members["retried_from"] = _dump(request.retried_from)
        details = "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}"
        if len(details.encode()) > LONGEST_DETAILS:
            details = _cut(members)
        return self._make("task.created", task, "allowed", details, draft.now)

    def _changed(self, draft: Draft, old: TaskState, change: StateChange) -> AuditRecord:
        task = draft.task
        details: dict[str, Any] = {
            "old_state": old.word,
            "new_state": change.state.word,
            "reason": self._redaction.text(change.reason[:LONGEST_SUMMARY]),
            "attempt": task.attempt.number,
        }
        if change.state not in TERMINAL:
            return self._make(
                "task.state_changed", task, change.state.word, _dump(details), draft.now
            )
        details["duration_ms"] = max(0, draft.now - (task.start_time or draft.now))
        details["result_summary"] = self._summary(task)
        if task.outcome is not None:
            details["outcome"] = task.outcome.name.lower()
        word = change.state.word
        return self._make(f"task.{word}", task, word, _dump(details), draft.now)

    def _may_go_on(self, draft: Draft) -> AuditRecord:
        """An answer or a resume was taken; its task changes its state when a slot is free."""
        task = draft.task
        details = {"state": task.state.word, "reason": self._redaction.text(task.state_reason)}
        return self._make("task.may_go_on", task, "allowed", _dump(details), draft.now)

    def _said_of_the_end(self, before: Task | None, draft: Draft) -> list[AuditRecord]:
        """Evidence for an uncertain failure, and the judgement of a result."""
        task = draft.task
        records = []
        if before is not None and task.resolution is not None and before.resolution is None:
            closed = task.resolution
            details = {"outcome": closed.outcome, "by": closed.by, "retried_as": closed.retried_as}
            details["evidence"] = self._redaction.text(closed.evidence[:LONGEST_SUMMARY])
            records.append(
                self._make("task.resolved", task, closed.outcome, _dump(details), draft.now)
            )
        if before is not None and task.acceptance is not None:
            judged = task.acceptance
            if judged != before.acceptance:
                decision = "accepted" if judged.accepted else "declined"
                reason = self._redaction.text(judged.reason[:LONGEST_SUMMARY])
                details = {"by": judged.by, "reason": reason}
                records.append(self._make("task.judged", task, decision, _dump(details), draft.now))
        return records

    def _summary(self, task: Task) -> str:
        """What came of it, in at most LONGEST_SUMMARY characters."""
        if task.failure is not None:
            text = f"{task.failure.code} {task.failure.reason}: {task.failure.message}"
            return self._redaction.text(text)[:LONGEST_SUMMARY]
        if not task.result:
            return ""
        return self._redaction.document(task.result)[:LONGEST_SUMMARY]

    def _make(
        self, event: str, task: Task | None, decision: str, details: str, now: int | None = None
    ) -> AuditRecord:
        """A record of the call under way; `now` is the time of the change it tells of, if any."""
        caused = origin.get()
        return AuditRecord(
            time=self._clock.now() if now is None else now,
            event=event,
            principal=caused.principal,
            method=caused.method,
            task_id="" if task is None else task.id,
            capability_id="" if task is None else task.request.capability_id,
            decision=decision,
            details=details,
            request_hash=caused.request_hash,
        )

    # --- reading ----------------------------------------------------------------------------------

    async def records(
        self, caller: Caller, task_id: str, event: str, after: int, limit: int
    ) -> Sequence[SealedRecord]:
        """A page of the chain, oldest first."""
        caller.require("audit:read")
        return await self._trail.audit_records(task_id, event, after, limit)

    async def verify(self, caller: Caller) -> Finding:
        """Check everything up to now. Raises AnchorBroken."""
        caller.require("audit:read")
        verifier = Verifier(self._key, await self._anchor.read())
        after = 0
        while True:
            page = await self._trail.audit_records("", "", after, PAGE)
            for found in page:
                if not verifier.take(found):
                    return verifier.finish()
            if len(page) < PAGE:
                return verifier.finish()
            after = page[-1].sequence


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bounded(details: str) -> str:
    """Details that fit; what does not becomes the text of its beginning."""
    if len(details.encode()) <= LONGEST_DETAILS:
        return details
    return _cut({"details": details})


def _cut(members: Mapping[str, str]) -> str:
    """JSON texts as an object in LONGEST_DETAILS bytes, long ones cut and so no JSON any more."""
    share = LONGEST_DETAILS
    while True:
        share //= 2
        kept: dict[str, Any] = {
            name: json.loads(text) if len(text) <= share else f"{text[:share]}…"
            for name, text in members.items()
        }
        text = _dump(kept | {"cut": True})
        if len(text.encode()) <= LONGEST_DETAILS:
            return text
