"""`pause`, `resume` and `cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.command import command

if TYPE_CHECKING:
    from aiosd.api.v1 import task_pb2
    from aiosd.ctl.command import Session, TaskId

commands = typer.Typer()

Reason = Annotated[str, typer.Option(help="Kept in the history and the audit log.")]


@command(commands, "pause")
async def pause(session: Session, task_id: TaskId, reason: Reason = "") -> None:
    """Stop a working task at its next checkpoint."""
    async with session.client() as client:
        print_state(session, await client.pause(task_id, reason))


@command(commands, "resume")
async def resume(session: Session, task_id: TaskId, reason: Reason = "") -> None:
    """Let a paused task go on."""
    async with session.client() as client:
        print_state(session, await client.resume(task_id, reason))


@command(commands, "cancel")
async def cancel(session: Session, task_id: TaskId, reason: Reason = "") -> None:
    """End a task."""
    async with session.client() as client:
        print_state(session, await client.cancel(task_id, reason))


def print_state(session: Session, task: task_pb2.Task) -> None:
    """The task after a command: its id and state for people, all of it as JSON."""
    from aiosd.ctl.plain import plain
    from aiosd.ctl.tasks import state_text

    if session.out.for_people:
        session.out.line(f"{task.task_id}  {state_text(task)}")
    else:
        session.out.value(plain(task))
