"""Pause and resume, which A2A has no operation for (a2a.md; extension pause-resume)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiosd.api.v1 import task_service_pb2
from gateway.a2a import snapshot
from gateway.a2a.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from a2a.types import a2a_pb2

    from gateway.a2a.call import Call

PAUSE: Final = "PauseTask"
RESUME: Final = "ResumeTask"
METHODS: Final = (PAUSE, RESUME)


async def control(call: Call, method: str, params: Mapping[str, object]) -> a2a_pb2.Task:
    """Pause or resume a task; `params` are {id, reason?}. The task after it."""
    task_id, reason = params.get("id"), params.get("reason", "")
    if not isinstance(task_id, str) or not task_id:
        raise invalid("id", "is required")
    if not isinstance(reason, str):
        raise invalid("reason", "must be a string")
    await snapshot.fetch(call, task_id)
    tasks = call.context.daemon.tasks
    if method == PAUSE:
        pause = task_service_pb2.PauseTaskRequest(task_id=task_id, reason=reason)
        await call.ask(tasks.PauseTask, pause)
    else:
        resume = task_service_pb2.ResumeTaskRequest(task_id=task_id, reason=reason)
        await call.ask(tasks.ResumeTask, resume)
    return (await snapshot.load(call, await snapshot.fetch(call, task_id))).shown
