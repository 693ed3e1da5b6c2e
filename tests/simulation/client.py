"""Clients that create, watch, answer and interfere, and repeat what got no answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from aiosd.application.access import Caller
from aiosd.application.creation import NewTask
from aiosd.application.errors import OutcomeUnknown, QueueFull, TaskNotFound
from aiosd.domain.errors import Refusal
from aiosd.domain.interruption import AuthResponse, AuthType, NeedKind
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.state import TaskState
from aiosd.domain.task import Options, Priority
from tests.simulation.daemon import Down

if TYPE_CHECKING:
    from aiosd.domain.task import Task
    from tests.simulation.world import World

OWNER = Caller("owner", frozenset({"task:create", "task:read", "task:control", "task:input"}))
APPROVER = Caller("approver", frozenset({"task:read", "permission:approve"}))


class Client:
    """One program with several tasks."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._rng = world.rng
        self.name = name
        self._keys = 0
        self.mine: dict[str, Task] = {}

    async def live(self, tasks: int) -> None:
        """Create `tasks` tasks over time, and look after them while the weather is bad."""
        made = 0
        while made < tasks or not self._world.calm:
            await asyncio.sleep(self._rng.expovariate(1.5))
            if made < tasks and self._rng.random() < 0.6:
                made += 1
                await self._create()
            elif self.mine:
                await self._meddle(self._rng.choice(list(self.mine)))

    async def finish(self) -> None:
        """Answer and resume until everything has ended."""
        while not self._world.done:
            for task_id in self._world.open_tasks():
                await self._tend(task_id, helpful=True)
            pause = 0.5
            await asyncio.sleep(pause)

    # --- creating ---------------------------------------------------------------------------------

    def _new(self) -> NewTask:
        rng = self._rng
        self._keys += 1
        key = f"{self.name}-{self._keys}" if rng.random() < 0.7 else ""
        options = Options(
            priority=rng.choice(list(Priority)),
            timeout_ms=rng.choice((0, 0, 0, 3_000, 15_000)),
            retry=RetryPolicy(rng.choice((1, 2, 3)), rng.choice((0, 500))),
            retry_safe=rng.random() < 0.3,
            deadline_ms=rng.choice((0, 0, 0, 0, 20_000)),
        )
        return NewTask(
            rng.choice(self._world.capabilities).id,
            json.dumps({"steps": script(self._world)}),
            options=options,
            retry_named=True,
            request_id=key,
        )

    async def _create(self) -> None:
        new = self._new()
        for _ in range(10):
            asked = 2 if new.request_id and self._rng.random() < 0.2 else 1
            answers = await asyncio.gather(
                *(self._ask_for(new) for _ in range(asked)), return_exceptions=True
            )
            for answer in answers:
                if isinstance(answer, QueueFull):
                    return
                if isinstance(answer, BaseException) and not isinstance(answer, Down | Refusal):
                    raise answer
            if any(not isinstance(answer, BaseException) for answer in answers):
                return
            if not new.request_id:
                return  # nobody knows; asking again could make a second one
            await asyncio.sleep(self._rng.random())

    async def _ask_for(self, new: NewTask) -> None:
        world = self._world
        world.creating += 1
        try:
            task, _ = await world.daemon.call(lambda core: core.creation.create(OWNER, new))
        except QueueFull:
            world.refused_as_full()
            raise
        finally:
            world.creating -= 1
        world.acknowledge(task, new.request_id)
        if task.id not in self.mine and self._rng.random() < 0.7:
            world.follow(task.id, self._rng.randrange(2))
        self.mine[task.id] = task

    # --- meddling ---------------------------------------------------------------------------------

    async def _meddle(self, task_id: str) -> None:
        daemon, rng = self._world.daemon, self._rng
        luck = rng.random()
        try:
            if luck < 0.07:
                await daemon.call(lambda core: core.control.cancel(OWNER, task_id, "enough"))
                self._world.promise(task_id, TaskState.CANCELED)
            elif luck < 0.3:
                await daemon.call(lambda core: core.control.pause(OWNER, task_id, ""))
            elif luck < 0.4:
                self._world.follow(task_id, 0)
            else:
                await self._tend(task_id, helpful=rng.random() < 0.7)
        except (Down, Refusal):
            pass

    async def _tend(self, task_id: str, *, helpful: bool) -> None:
        daemon = self._world.daemon
        try:
            task = await daemon.call(lambda core: core.control.get(OWNER, task_id))
            self.mine[task_id] = task
            if not helpful:
                return
            for _ in range(2 if self._rng.random() < 0.1 else 1):
                if task.state is TaskState.PAUSED:
                    await daemon.call(lambda core: core.control.resume(OWNER, task_id, ""))
                elif task.state in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED):
                    await self._answer(task)
        except TaskNotFound:
            self._world.blame(task_id, "an acknowledged task is not found")
        except (Down, Refusal):
            pass

    async def _answer(self, task: Task) -> None:
        daemon, wait = self._world.daemon, task.interruption
        if wait is None:
            return
        if wait.kind is NeedKind.HUMAN_APPROVAL:
            with suppress(TaskNotFound):  # approvers see it only while it waits for them
                await self._decide(task, wait.interruption_id)
            return
        value = self._world.answer(task.id, wait.interruption_id)
        try:
            if task.state is TaskState.INPUT_REQUIRED:
                text = json.dumps({"answer": value})
                await daemon.call(
                    lambda core: core.control.submit_input(
                        OWNER, task.id, text, wait.interruption_id
                    )
                )
            else:
                text = value
                response = AuthResponse(AuthType.API_KEY, api_key=value)
                await daemon.call(
                    lambda core: core.control.authenticate(
                        OWNER, task.id, response, wait.interruption_id
                    )
                )
        except (Down, OutcomeUnknown):
            self._world.answered(task.id, wait, text, sure=False)
            raise
        self._world.answered(task.id, wait, text, sure=True)

    async def _decide(self, task: Task, interruption_id: str) -> None:
        """Another person approves, mostly; a critical one twice."""
        approve = self._rng.random() < 0.9
        confirmation = ""
        for _ in range(2):
            response = AuthResponse(
                AuthType.APPROVAL, approve=approve, confirmation_id=confirmation
            )
            answered = await self._world.daemon.call(
                lambda core, given=response: core.control.authenticate(  # type: ignore[misc]
                    APPROVER, task.id, given, interruption_id
                )
            )
            confirmation = answered.confirmation_id
            if not confirmation:
                return


def script(world: World) -> list[tuple[str, float]]:
    """Steps of an attempt; they always end."""
    rng = world.rng
    steps: list[tuple[str, float]] = []
    for _ in range(rng.randrange(1, 6)):
        kind = rng.choice(("sleep", "sleep", "progress", "log", "chunks", "ask", "auth", "save"))
        kind = rng.choice((kind, "sleep", "message", "reply"))
        value: float = 0
        if kind == "sleep":
            value = rng.choice((0.01, 0.2, 1.0, 4.0))
        elif kind in ("progress", "chunks", "reply"):
            value = rng.randrange(1, 4)
        steps.append((kind, value))
    end = rng.random()
    if end < 0.2:
        steps.append(("fail", rng.randrange(1, 4)))
    elif end < 0.25:
        steps.append(("break", 0))
    elif end < 0.3:
        steps.append(("decline", 0))
    return steps
