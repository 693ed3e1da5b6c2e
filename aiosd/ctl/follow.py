"""`watch`, `logs` and `events`: what happens to a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl import exit_code
from aiosd.ctl.command import command
from aiosd.ctl.output import Format, Output

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiosd.api.v1 import event_pb2, task_pb2
    from aiosd.ctl.command import Session, TaskId
    from aiosd.sdk import Client

commands = typer.Typer()

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")]


@command(commands, "watch")
async def watch(session: Session, task_id: TaskId) -> int:
    """Follow a task to its end: a live bar on a terminal, lines elsewhere; then the result.

    With -o jsonl every event is a line of JSON on stdout.
    """
    async with session.client() as client:
        if session.out.format is Format.jsonl:
            await _print_events(session.out, client.subscribe(task_id))
            return exit_code.of_task(await client.get(task_id))
        return finish(session, await follow(client, task_id, stops_at_questions=False))


@command(commands, "events")
async def events(
    session: Session,
    task_id: TaskId,
    after: Annotated[int, typer.Option(min=0, help="Begin behind this event number.")] = 0,
    follow: Follow = False,
    parts: Annotated[bool, typer.Option("--parts", help="With the content of artifacts.")] = False,
) -> None:
    """Print the event log of a task."""
    async with session.client() as client:
        await _print_events(
            session.out, replay(client, task_id, after=after, follow=follow, parts=parts)
        )


@command(commands, "logs")
async def logs(session: Session, task_id: TaskId, follow: Follow = False) -> None:
    """Print the log lines of a task."""
    from aiosd.ctl.plain import field_word, plain

    async with session.client() as client:
        async for event in replay(client, task_id, follow=follow):
            if event.WhichOneof("payload") != "logged":
                continue
            if session.out.for_people:
                level = field_word(event.logged, "level").upper()
                session.out.line(f"{level:<5}  {event.logged.message}")
            else:
                Output(Format.jsonl).value(plain(event))


async def replay(
    client: Client, task_id: str, *, after: int = 0, follow: bool, parts: bool = False
) -> AsyncIterator[event_pb2.Event]:
    """The events of a task up to now, or to its end if `follow`."""
    head = (await client.get(task_id)).event_head
    if not follow and after >= head:
        return
    async with client.subscribe(task_id, after=after, include_parts=parts) as subscription:
        async for event in subscription:
            yield event
            if not follow and event.sequence >= head:
                return


async def follow(
    client: Client, task_id: str, *, stops_at_questions: bool, after: int = 0
) -> task_pb2.Task:
    """Show what happens on stderr until the task has ended; the task as it is then.

    `stops_at_questions`: also end when the task waits for an answer.
    """
    from aiosd.ctl.timeline import display
    from aiosd.sdk import requests

    with display(task_id) as shown:
        async with client.subscribe(task_id, after=after) as subscription:
            async for event in subscription:
                shown.show(event)
                asked = event.WhichOneof("payload") in ("input_required", "auth_required")
                if asked and stops_at_questions:
                    task = await client.get(task_id)
                    if requests.is_interrupted(task):
                        return task
        return await client.get(task_id)


def finish(session: Session, task: task_pb2.Task) -> int:
    """Print how a task that was waited for stands, and give its exit code.

    Data is the result for people and the whole task as JSON; why it did not complete, and what
    to do about a question, goes to stderr.
    """
    import json

    from aiosd.ctl.plain import plain

    code = exit_code.of_task(task)
    if not session.out.for_people:
        session.out.value(plain(task))
    elif code is exit_code.ExitCode.COMPLETED:
        session.out.value(json.loads(task.result or "null"))
    for line in remarks(task, code):
        session.out.note(line)
    return code


def remarks(task: task_pb2.Task, code: exit_code.ExitCode) -> list[str]:
    """What a person wants to know about a task beside its result."""
    from aiosd.ctl.plain import field_word
    from aiosd.ctl.tasks import failure_text, state_text, waits_for

    if code is exit_code.ExitCode.COMPLETED:
        return [
            f"artifact {item.artifact_id}: {item.name}, {item.size_bytes} bytes"
            for item in task.artifacts
        ]
    lines = [f"{task.task_id}: {state_text(task)}"]
    if failure := failure_text(task):
        lines.append(f"{task.task_id}: {failure}")
    if task.HasField("interruption"):
        facts = waits_for(task.interruption)
        lines += [f"  {name.lower()}: {value}" for name, value in facts if value]
    if code is exit_code.ExitCode.INPUT_REQUIRED:
        lines.append(f"answer with: aiosctl input {task.task_id} key=value")
    elif code is exit_code.ExitCode.AUTH_REQUIRED:
        approval = field_word(task.interruption.auth_request, "type") == "approval"
        verb = "approve" if approval else "auth"
        lines.append(f"continue with: aiosctl {verb} {task.task_id}")
    elif code is exit_code.ExitCode.UNCERTAIN:
        lines.append("it may have had effects; look before you run it again")
    return lines


async def _print_events(out: Output, found: AsyncIterator[event_pb2.Event]) -> None:
    """Lines for people; JSON, one event a line, otherwise."""
    from aiosd.ctl.plain import plain
    from aiosd.ctl.timeline import line

    async for event in found:
        if out.for_people:
            out.line(f"{event.sequence:>5}  {line(event)}")
        else:
            Output(Format.jsonl).value(plain(event))
