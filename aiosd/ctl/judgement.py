"""`resolve` and `accept`: what people say of tasks that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed
from aiosd.ctl.command import command
from aiosd.ctl.control import print_state

if TYPE_CHECKING:
    from aiosd.ctl.command import Session, TaskId

commands = typer.Typer()

OUTCOMES = ("completed", "failed", "retry")


@command(commands, "resolve")
async def resolve(
    session: Session,
    task_id: TaskId,
    outcome: Annotated[str, typer.Argument(help="completed, failed or retry.")],
    evidence: Annotated[str, typer.Option(help="What was seen; kept for ever.")],
) -> None:
    """Close an uncertain failure with evidence; `retry` makes a new task.

    The task stays failed: what becomes certain is what is known about its effects.
    """
    from aiosd.ctl.plain import plain

    if outcome not in OUTCOMES:
        raise Typed(f"{outcome!r} is none of {', '.join(OUTCOMES)}")
    async with session.client() as client:
        answer = await client.resolve(task_id, outcome, evidence)
    if not session.out.for_people:
        session.out.value(plain(answer))
        return
    print_state(session, answer.task)
    if answer.HasField("retried_as"):
        print_state(session, answer.retried_as)


@command(commands, "accept")
async def accept(
    session: Session,
    task_id: TaskId,
    decline: Annotated[
        bool, typer.Option("--decline", help="The result does not satisfy.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
) -> None:
    """Record whether the result of a completed task satisfies; the task stays as it is."""
    async with session.client() as client:
        print_state(session, await client.accept(task_id, not decline, reason))
