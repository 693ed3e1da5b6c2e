"""Cancel, pause, resume, answers: what callers do to tasks that exist."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiosd.application import json_text
from aiosd.application.access import own, readable
from aiosd.application.errors import PauseUnanswered
from aiosd.application.permissions import Answered
from aiosd.domain import lifecycle, waits
from aiosd.domain.errors import ArgumentInvalid, InputRejected, TaskStateInvalid
from aiosd.domain.interruption import (
    NeedKind,
    check_options,
    refuse_credentials,
    refuse_message_credentials,
)
from aiosd.domain.state import INTERRUPTED, TaskState

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.application.access import Caller
    from aiosd.application.credentials import Credentials
    from aiosd.application.execution import Execution
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.permissions import Permissions
    from aiosd.application.ports import Schemas
    from aiosd.application.slots import Slots
    from aiosd.application.wakeups import Wakeups
    from aiosd.domain.content import Message
    from aiosd.domain.draft import Draft
    from aiosd.domain.interruption import AuthResponse
    from aiosd.domain.task import Task

#: An answer is kept with its task, for a repetition of the question.
LARGEST_INPUT = 256 * 1024


class Control:
    """Each method is one use case; all raise TaskNotFound for a task that is not the caller's."""

    def __init__(
        self,
        ledger: Ledger,
        execution: Execution,
        slots: Slots,
        credentials: Credentials,
        permissions: Permissions,
        schemas: Schemas,
        wakeups: Wakeups,
        limits: Limits,
    ) -> None:
        self._ledger = ledger
        self._execution = execution
        self._slots = slots
        self._credentials = credentials
        self._permissions = permissions
        self._schemas = schemas
        self._wakeups = wakeups
        self._limits = limits

    async def get(self, caller: Caller, task_id: str) -> Task:
        """The task as it is."""
        if not caller.may("permission:approve"):
            caller.require("task:read")
        return readable(caller, await self._ledger.load(task_id))

    async def wait(
        self, caller: Caller, task_id: str, wait_ms: int, above_revision: int = 0
    ) -> Task:
        """The task once it is terminal or interrupted or above a revision; else after the wait."""
        task = await self.get(caller, task_id)

        def settled(task: Task) -> bool:
            moved = bool(above_revision) and task.revision > above_revision
            waits = task.state in INTERRUPTED and not task.resume_pending
            return task.terminal or waits or moved

        if wait_ms <= 0 or settled(task):
            return task
        return await self._until(task, settled, min(wait_ms, self._limits.sync_wait_ms))

    async def wait_for_end(self, task: Task, wait_ms: int) -> Task:
        """The task once it is terminal, or as it is after the wait."""
        return await self._until(task, lambda now: now.terminal, wait_ms)

    async def cancel(self, caller: Caller, task_id: str, reason: str) -> Task:
        """End it durably; the executor is then asked and after the grace forced to stop."""
        caller.require("task:control")
        task = own(caller, await self._ledger.load(task_id))
        done = await self._ledger.change(task.id, lambda draft: lifecycle.cancel(draft, reason))
        return done.task

    async def pause(self, caller: Caller, task_id: str, reason: str) -> Task:
        """Stop a WORKING task at its next checkpoint.

        Raises TaskStateInvalid, NotPausable, PauseUnanswered.
        """
        caller.require("task:control")
        task = own(caller, await self._ledger.load(task_id))
        waits.check_pausable(task)
        if not await self._execution.ask_to_pause(task_id, reason):
            done = await self._ledger.change(task_id, lambda draft: waits.pause(draft, reason))
            return done.task
        task = await self._until(
            task, lambda now: now.state is not TaskState.WORKING, self._limits.pause_timeout_ms
        )
        if task.state is TaskState.PAUSED:
            return task
        await self._execution.unpause(task_id)
        if task.state is TaskState.WORKING:
            raise PauseUnanswered(
                "the provider did not come to a stop in time",
                {"state": task.state.word, "attempted": "pause", "allowed": ""},
            )
        raise TaskStateInvalid(task.state, "pause")

    async def resume(self, caller: Caller, task_id: str, reason: str) -> Task:
        """Let a PAUSED task go on, at once or when a slot is free (X08)."""
        caller.require("task:control")
        task = own(caller, await self._ledger.load(task_id))
        return await self._with_slot(
            task, lambda draft, slot: waits.resume(draft, reason, slot=slot)
        )

    async def submit_input(
        self,
        caller: Caller,
        task_id: str,
        input_text: str,
        interruption_id: str,
        message: Message | None = None,
    ) -> Task:
        """Answer the open question; `message` is what carried the answer and is kept with it.

        Raises ArgumentInvalid, InputRejected, CredentialRefused, TaskStateInvalid.
        """
        caller.require("task:input")
        task = own(caller, await self._ledger.load(task_id))
        if len(input_text.encode()) > LARGEST_INPUT:
            raise ArgumentInvalid("input", f"must not exceed {LARGEST_INPUT} bytes")
        given = json_text.parse_object(input_text, "input")
        wait = waits.open_wait(task, TaskState.INPUT_REQUIRED, "input", interruption_id)
        refuse_credentials(given, "input")
        if message is not None:
            refuse_message_credentials(message)
        if wait.schema and (problem := self._schemas.problem(wait.schema, given)):
            raise InputRejected(f"input: {problem}", {"field": "input", "problem": problem})
        check_options(wait, given)
        return await self._with_slot(
            task,
            lambda draft, slot: waits.answer(
                draft, input_text, wait.interruption_id, slot=slot, message=message
            ),
            messages=message is not None,
        )

    async def authenticate(
        self, caller: Caller, task_id: str, response: AuthResponse, interruption_id: str
    ) -> Answered:
        """Give the credential or the decision that is asked for.

        Raises AuthRejected, TaskStateInvalid, PermissionDenied.
        """
        if not caller.may("permission:approve"):
            caller.require("task:input")
        task = readable(caller, await self._ledger.load(task_id))
        wait = waits.open_wait(task, TaskState.AUTH_REQUIRED, "authenticate", interruption_id)
        if wait.kind is NeedKind.HUMAN_APPROVAL:
            return await self._permissions.answer(caller, task, wait, response)
        caller.require("task:input")
        checked = self._credentials.check(wait, response)

        def command(draft: Draft, slot: bool) -> None:
            waits.authorize(draft, wait.interruption_id, "authorization received", slot=slot)
            # Only the answer that is accepted is kept, and before anybody is told of it.
            self._credentials.keep(task_id, checked)

        return Answered(await self._with_slot(task, command))

    async def _with_slot(
        self, task: Task, command: Callable[[Draft, bool], object], *, messages: bool = False
    ) -> Task:
        """Apply a command that enters WORKING if there is a slot, and waits for one if not."""
        slot = self._slots.reserve(task)
        try:
            done = await self._ledger.change(
                task.id, lambda draft: command(draft, slot), messages=messages
            )
        finally:
            if slot:
                self._slots.release(task.id)
        return done.task

    async def _until(self, task: Task, settled: Callable[[Task], bool], wait_ms: int) -> Task:
        try:
            async with asyncio.timeout(wait_ms / 1000):
                with self._wakeups.listen(task.id) as signal:
                    while True:
                        signal.clear()
                        task = await self._ledger.load(task.id) or task
                        if settled(task):
                            return task
                        await signal.wait()
        except TimeoutError:
            return await self._ledger.load(task.id) or task
