"""`run`: create a task and wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiosd.ctl.approvals import settle
from aiosd.ctl.arguments import Typed, parse_duration_ms, parse_json_object, parse_object
from aiosd.ctl.command import command
from aiosd.ctl.exit_code import ExitCode
from aiosd.ctl.follow import finish, follow

if TYPE_CHECKING:
    from aiosd.api.v1 import task_pb2
    from aiosd.ctl.command import Session
    from aiosd.sdk import Client

commands = typer.Typer()

PRIORITIES = ("low", "normal", "high", "urgent")
WORDS = "Arguments: key=value, key:=json, a.b=value."


@command(commands, "run")
async def run(
    session: Session,
    capability_id: Annotated[str, typer.Argument(metavar="CAPABILITY")],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...", help=WORDS)] = None,
    json: Annotated[str | None, typer.Option(help="Arguments as a JSON object.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show what happens.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait.")] = False,
    priority: Annotated[str, typer.Option(help="low, normal, high or urgent.")] = "normal",
    timeout: Annotated[
        str | None, typer.Option(help="Working time of the task, such as 30s or 1500ms.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Time from creation to its end, waits included.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key and request give the same task.")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, max=99, help="Further attempts.")] = 0,
    retry_delay: Annotated[str, typer.Option(help="Pause before a further attempt.")] = "0s",
    retry_safe: Annotated[
        bool, typer.Option("--retry-safe", help="A lost attempt may be repeated.")
    ] = False,
    context: Annotated[str, typer.Option(help="Context to put the task in.")] = "",
    metadata: Annotated[str | None, typer.Option(help="Metadata as a JSON object.")] = None,
    approve: Annotated[
        bool, typer.Option("--approve", help="Allow it; critical ones still ask.")
    ] = False,
) -> int:
    """Create a task, wait for it and print its result.

    What needs your approval asks for it at a terminal; elsewhere --approve gives it. The wait
    also ends when the task asks something else (exit codes 4 and 5). Ctrl-C ends the wait, not
    the task.
    """
    if priority not in PRIORITIES:
        raise Typed(f"--priority: {priority!r} is none of {', '.join(PRIORITIES)}")
    options: dict[str, Any] = {
        "priority": priority,
        "request_id": idempotency_key,
        "retry_safe": retry_safe,
        "context_id": context,
        "metadata": parse_json_object(metadata) if metadata is not None else {},
        "timeout_ms": None if timeout is None else parse_duration_ms(timeout),
        "deadline_ms": 0 if deadline is None else parse_duration_ms(deadline),
    }
    if retries:
        options["retry"] = {
            "max_attempts": retries + 1,
            "delay_ms": parse_duration_ms(retry_delay),
        }
    arguments = parse_object(words or [], json)
    async with session.client() as client:
        task = await client.create(capability_id, arguments, **options)
        if detach:
            _print_id(session, task)
            return ExitCode.COMPLETED
        return await _wait(session, client, task, watch=watch, approve=approve)


async def _wait(
    session: Session, client: Client, task: task_pb2.Task, *, watch: bool, approve: bool
) -> int:
    from asyncio import CancelledError

    try:
        seen = 0
        while True:
            if watch:
                ended = await follow(client, task.task_id, stops_at_questions=True, after=seen)
            else:
                ended = await client.wait(task.task_id)
            seen = ended.event_head
            if not needs_approval(ended) or not await settle(session, ended, approved=approve):
                break
    except CancelledError:
        session.out.note(f"the task goes on: aiosctl watch|cancel {task.task_id}")
        raise
    return finish(session, ended)


def _print_id(session: Session, task: task_pb2.Task) -> None:
    from aiosd.ctl.plain import plain

    if session.out.for_people:
        session.out.line(task.task_id)
    else:
        session.out.value(plain(task))


def needs_approval(task: task_pb2.Task) -> bool:
    """Whether the task waits for a person's approval."""
    from aiosd.api.v1 import interruption_pb2, task_pb2

    waits = task.state == task_pb2.TASK_STATE_AUTH_REQUIRED
    return waits and task.interruption.kind == interruption_pb2.NEED_KIND_HUMAN_APPROVAL
