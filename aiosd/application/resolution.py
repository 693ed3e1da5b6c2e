"""What people say of tasks that have ended: evidence for uncertain failures, judgement of results.

Neither ever changes a terminal state (design.md 16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.application import json_text
from aiosd.application.access import Caller, own
from aiosd.application.creation import NewTask
from aiosd.domain import lifecycle
from aiosd.domain.errors import ArgumentInvalid

if TYPE_CHECKING:
    from aiosd.application.creation import Creation
    from aiosd.application.ledger import Ledger
    from aiosd.domain.task import Task

MAX_REASON = 1024


class Resolution:
    """The use cases ResolveTask and AcceptTask."""

    def __init__(self, ledger: Ledger, creation: Creation) -> None:
        self._ledger = ledger
        self._creation = creation

    async def resolve(
        self, caller: Caller, task_id: str, outcome: str, evidence: str, trace_parent: str = ""
    ) -> tuple[Task, Task | None]:
        """Close an uncertain failure; outcome `retry` makes a new task, the second of the pair.

        Only the owner of the task and an administrator may. Raises TaskNotFound, NotResolvable,
        ArgumentInvalid, and for a retry whatever creating the task raises; then nothing happened.
        """
        caller.require("task:control")
        json_text.check_text(evidence, "evidence")
        found = await self._ledger.load(task_id)
        if found is None or "admin:*" not in caller.scopes:
            found = own(caller, found)
        by = caller.principal
        if outcome != "retry":
            done = await self._ledger.change(
                task_id, lambda draft: lifecycle.resolve(draft, outcome, evidence, by)
            )
            return done.task, None
        owner = Caller(found.principal, caller.scopes)
        with self._creation.prepared(owner, again(found, trace_parent)) as born:
            done = await self._ledger.change(
                task_id,
                lambda draft: lifecycle.resolve(draft, outcome, evidence, by, born.task.id),
                born=born,
            )
            return done.task, await self._ledger.load(born.task.id)

    async def accept(self, caller: Caller, task_id: str, accepted: bool, reason: str) -> Task:
        """Record whether a completed result satisfies (R199). Raises TaskStateInvalid."""
        caller.require("task:control")
        json_text.check_text(reason, "reason")
        if len(reason) > MAX_REASON:
            raise ArgumentInvalid("reason", f"must not exceed {MAX_REASON} characters")
        task = own(caller, await self._ledger.load(task_id))
        done = await self._ledger.change(
            task.id, lambda draft: lifecycle.judge(draft, accepted, reason, caller.principal)
        )
        return done.task


def again(task: Task, trace_parent: str) -> NewTask:
    """The same work once more, as a task of its own that names the first."""
    request = task.request
    return NewTask(
        capability_id=request.capability_id,
        arguments=request.arguments,
        message=request.message,
        context_id=task.context_id,
        options=request.options,
        retry_named=True,
        metadata=request.metadata,
        reference_task_ids=request.reference_task_ids,
        trace_parent=trace_parent,
        retried_from=task.id,
    )
