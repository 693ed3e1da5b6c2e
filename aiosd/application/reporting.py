"""Turning reports into changes: one batch of one attempt, one commit, one acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aiosd.application.errors import TaskNotFound
from aiosd.application.messages import (
    Ack,
    Canceled,
    Checkpoint,
    Completed,
    Malformed,
    Paused,
    Refused,
    Rejected,
    Report,
    RequestAuth,
    RequestInput,
    Resume,
    Resumed,
)
from aiosd.domain import lifecycle, reports, waits
from aiosd.domain.artifact import Chunk
from aiosd.domain.content import LogLine, Message, Progress
from aiosd.domain.errors import ArgumentInvalid, Refusal, ReportRefused
from aiosd.domain.failure import Failure
from aiosd.domain.interruption import AuthType, Interruption, NeedKind
from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.application.credentials import Credentials
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.ports import Ids, Schemas
    from aiosd.application.quotas import Quotas
    from aiosd.application.sessions import Session
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

#: Reports that only a WORKING task can take; while it is paused or waits they are parked.
NEED_WORKING = (RequestInput, RequestAuth, Completed, Failure, Rejected)


@dataclass(slots=True)
class Verdict:
    """What became of a batch: the highest number taken, refusals, and what must wait."""

    up_to: int = 0
    refused: list[Refused] = field(default_factory=list)
    left: list[Report] = field(default_factory=list)
    resume: bool = False
    stopped: bool = False


class Reporting:
    """Applies reports of attempts to their tasks."""

    def __init__(
        self,
        ledger: Ledger,
        credentials: Credentials,
        schemas: Schemas,
        ids: Ids,
        limits: Limits,
        quotas: Quotas,
        stopped: Callable[[Session, str, int], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._credentials = credentials
        self._schemas = schemas
        self._ids = ids
        self._limits = limits
        self._quotas = quotas
        self.stopped = stopped
        #: Told of every refusal before the provider is.
        self.refused: Callable[[Session, Refused], Awaitable[None]] | None = None

    async def store(self, session: Session, task_id: str, batch: list[Report]) -> list[Report]:
        """Store what can be stored, answer the provider, return what must wait."""
        try:
            done = await self._ledger.insist(
                task_id,
                lambda draft: self._apply(draft, session, batch),  # numbers tell what was stored
                artifacts=any(isinstance(one.said, Chunk | Completed) for one in batch),
                messages=any(
                    isinstance(one.said, Message)
                    or (isinstance(one.said, Completed) and one.said.by_message)
                    for one in batch
                ),
                reporter=session.id,
            )
        except TaskNotFound:
            verdict = Verdict(refused=[_refuse(one, "ATTEMPT_FENCED", "") for one in batch])
        else:
            verdict = done.value
        if self.refused is not None:
            for refusal in verdict.refused:
                await self.refused(session, refusal)
        self._answer(session, task_id, batch, verdict)
        return verdict.left

    async def must_wait(self, task_id: str) -> bool:
        """Whether reports that need WORKING still wait for it."""
        task = await self._ledger.resolve(task_id)
        return task is not None and _stands(task)

    def _answer(
        self, session: Session, task_id: str, batch: list[Report], verdict: Verdict
    ) -> None:
        attempt = batch[0].attempt
        for refusal in verdict.refused:
            session.send(refusal)
        if verdict.up_to:
            session.send(Ack(task_id, attempt, verdict.up_to))
        if verdict.resume:
            session.send(Resume(task_id, attempt))
        if verdict.stopped and self.stopped is not None:
            self.stopped(session, task_id, attempt)

    def _apply(self, draft: Draft, session: Session, batch: list[Report]) -> Verdict:
        verdict = Verdict()
        newest = [one.number for one in batch if isinstance(one.said, Progress)]
        for position, report in enumerate(batch):
            attempt = draft.task.attempt
            if attempt.number == report.attempt and report.number <= attempt.reports:
                verdict.up_to = max(verdict.up_to, report.number)  # sent again: a no-op
                continue
            if isinstance(report.said, Canceled):
                verdict.stopped = True
            try:
                reports.check_holder(draft.task, report.attempt, session.id)
                if report.number != attempt.reports + 1:
                    raise ReportRefused(
                        "REPORT_INVALID",
                        f"number: expected {attempt.reports + 1}, got {report.number}",
                    )
                if isinstance(report.said, NEED_WORKING) and _stands(draft.task):
                    verdict.left = batch[position:]
                    return verdict
            except ReportRefused as refusal:
                _note(verdict, report, refusal.code, str(refusal))
                continue
            reports.acknowledge(draft, report.number)
            verdict.up_to = report.number
            if isinstance(report.said, Progress) and report.number != newest[-1]:
                continue  # a later progress of the same commit replaces it
            try:
                self._take(draft, session, report, verdict)
            except ReportRefused as refusal:
                _note(verdict, report, refusal.code, str(refusal))
            except ArgumentInvalid as refusal:
                _note(verdict, report, "REPORT_INVALID", str(refusal))
            except Refusal as refusal:
                _note(verdict, report, refusal.reason, str(refusal))
        return verdict

    def _take(self, draft: Draft, session: Session, report: Report, verdict: Verdict) -> None:
        report = replace(report, said=self._credentials.hide(draft.task.id, report.said))
        match report.said:
            case Malformed():
                raise ReportRefused("REPORT_INVALID", report.said.problem)
            case Progress():
                reports.progress(draft, report.said)
            case LogLine():
                reports.log(draft, report.said)
            case Chunk():
                reports.chunk(draft, report.said, self._quotas.artifact_room(draft.task.principal))
            case Message():
                reports.message(draft, report.said)
            case Checkpoint():
                reports.save(draft, report.said.state)
            case RequestInput():
                waits.interrupt(draft, self._question(draft, report.said, report.number))
            case RequestAuth():
                waits.interrupt(draft, self._need(draft, report.said, report.number))
            case Paused():
                self._paused(draft, session, verdict)
            case Resumed() | Canceled():
                pass
            case Completed() if report.said.by_message:
                reports.complete_by_message(draft)
            case Completed():
                lifecycle.complete(
                    draft, report.said.result, direct_message=report.said.direct_message
                )
            case Failure():
                lifecycle.fail(draft, report.said)
            case Rejected():
                lifecycle.reject(draft, report.said.reason)

    def _paused(self, draft: Draft, session: Session, verdict: Verdict) -> None:
        held = session.held.get(draft.task.id)
        reason = held.pause if held is not None else None
        if held is None or reason is None or draft.task.state is not TaskState.WORKING:
            # Nobody asked any more, or the task waits for something else: it must not stand.
            verdict.resume = draft.task.state is not TaskState.PAUSED
            return
        waits.pause(draft, reason)

    def _question(self, draft: Draft, asked: RequestInput, number: int) -> Interruption:
        if not asked.prompt:
            raise ReportRefused("REPORT_INVALID", "request_input.prompt: is required")
        if asked.schema and (problem := self._schemas.check(asked.schema)):
            raise ReportRefused("REPORT_INVALID", f"request_input.schema: {problem}")
        wait = self._wait(draft, asked.action, number, asked.timeout_ms, "input_timeout_ms")
        return replace(
            wait,
            kind=NeedKind.BUSINESS_INPUT,
            prompt=asked.prompt,
            options=asked.options,
            schema=asked.schema,
        )

    def _need(self, draft: Draft, asked: RequestAuth, number: int) -> Interruption:
        if asked.request.type is AuthType.APPROVAL:
            raise ReportRefused("REPORT_INVALID", "request_auth.type: approval is the daemon's")
        wait = self._wait(draft, asked.action, number, asked.timeout_ms, "auth_timeout_ms")
        request = self._credentials.issue(wait.interruption_id, asked.request)
        return replace(
            wait,
            kind=NeedKind.MACHINE_CREDENTIAL,
            prompt=asked.request.reason,
            auth_request=request,
        )

    def _wait(
        self, draft: Draft, action: str, number: int, timeout_ms: int | None, setting: str
    ) -> Interruption:
        timeout = getattr(self._limits, setting) if timeout_ms is None else timeout_ms
        return Interruption(
            interruption_id=self._ids.new("int"),
            kind=NeedKind.BUSINESS_INPUT,
            action=action,
            create_time=draft.now,
            expire_time=draft.now + timeout if timeout else 0,
            timeout_ms=timeout,
            attempt=draft.task.attempt.number,
            report_number=number,
        )


def _stands(task: Task) -> bool:
    return task.state is not TaskState.WORKING and not task.terminal


def _note(verdict: Verdict, report: Report, reason: str, message: str) -> None:
    verdict.refused.append(_refuse(report, reason, message))


def _refuse(report: Report, reason: str, message: str) -> Refused:
    return Refused(report.task_id, report.attempt, report.number, reason, message)
