"""`list`, `ps`, `get` and `wait`: tasks as they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiosd.ctl import exit_code
from aiosd.ctl.arguments import Typed, parse_duration_ms
from aiosd.ctl.command import command
from aiosd.spelling import spelled

if TYPE_CHECKING:
    from aiosd.api.v1 import task_pb2
    from aiosd.ctl.command import Session, TaskId
    from aiosd.sdk import Client

commands = typer.Typer()

STATES = (
    *("submitted", "working", "completed", "failed", "canceled"),
    *("input_required", "rejected", "auth_required", "paused"),
)
OPEN_STATES = ("submitted", "working", "input_required", "auth_required", "paused")
COLUMNS = ("TASK", "STATE", "PROGRESS", "CAPABILITY", "PRIORITY", "CREATED")
PAGE = 200

State = Annotated[
    list[str] | None, typer.Option("--state", "-s", help="Only in this state; repeatable.")
]
Capability = Annotated[str, typer.Option("--capability", help="Only of it; * stands for any text.")]
Context = Annotated[str, typer.Option("--context", help="Only of this context.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")]


@command(commands, "list")
async def list_tasks(
    session: Session,
    state: State = None,
    capability: Capability = "",
    context: Context = "",
    limit: Limit = 50,
) -> None:
    """List your tasks, newest first."""
    async with session.client() as client:
        await _print_list(session, client, state or [], capability, context, limit)


@command(commands, "ps")
async def ps(
    session: Session,
    all_states: Annotated[bool, typer.Option("--all", "-a", help="Ended ones too.")] = False,
    capability: Capability = "",
    limit: Limit = 50,
) -> None:
    """List your tasks that have not ended."""
    async with session.client() as client:
        states = [] if all_states else list(OPEN_STATES)
        await _print_list(session, client, states, capability, "", limit)


@command(commands, "get")
async def get(
    session: Session,
    task_id: TaskId,
    history: Annotated[bool, typer.Option("--history", help="With all state changes.")] = False,
) -> None:
    """Show a task."""
    from aiosd.ctl.plain import plain

    async with session.client() as client:
        task = await client.get(task_id, include_history=history)
    if not session.out.for_people:
        session.out.value(plain(task))
        return
    for line in describe(task):
        session.out.line(line)


@command(commands, "wait")
async def wait(
    session: Session,
    task_ids: Annotated[list[str], typer.Argument(metavar="TASK...")],
    timeout: Annotated[
        str | None, typer.Option(help="Stop waiting after this long, such as 30s.")
    ] = None,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Questions do not end the wait.")
    ] = False,
) -> int:
    """Wait until tasks have ended, or wait for somebody themselves.

    The exit code is that of the first task that did not complete.
    """
    from aiosd.ctl.plain import field_word, plain

    end = None if timeout is None else time.monotonic() + parse_duration_ms(timeout) / 1000
    code = 0
    tasks: list[task_pb2.Task] = []
    async with session.client() as client:
        for task_id in task_ids:
            left = None if end is None else max(0, round((end - time.monotonic()) * 1000))
            task = await client.wait(task_id, left, terminal=terminal)
            code = code or exit_code.of_task(task)
            tasks.append(task)
    rows = [(task.task_id, field_word(task, "state")) for task in tasks]
    session.out.rows(("TASK", "STATE"), rows, [plain(task) for task in tasks])
    return code


def describe(task: task_pb2.Task) -> list[str]:
    """A task as a person reads it, one fact a line."""
    from aiosd.ctl.plain import field_word, timestamp

    facts: list[tuple[str, str]] = [
        ("Task", task.task_id),
        ("State", state_text(task)),
        ("Capability", task.capability_id),
        ("Context", task.context_id),
        ("Priority", field_word(task.options, "priority") if task.HasField("options") else ""),
        ("Principal", task.principal),
        ("Attempt", str(task.attempt)),
        ("Progress", progress_text(task)),
        ("Arguments", task.arguments),
        ("Metadata", "" if task.metadata == "{}" else task.metadata),
    ]
    if task.HasField("interruption"):
        facts += waits_for(task.interruption)
    facts += [("Result", task.result), ("Failure", failure_text(task))]
    facts += [
        ("Artifact", f"{item.artifact_id}  {item.name}  {item.size_bytes} bytes")
        for item in task.artifacts
    ]
    facts += [
        (name, timestamp(getattr(task, field)))
        for name, field in (("Created", "create_time"), ("Started", "start_time"))
        if task.HasField(field)  # type: ignore[arg-type]
    ]
    if task.HasField("end_time"):
        facts.append(("Ended", timestamp(task.end_time)))
    facts += [
        ("History", f"{timestamp(change.time)}  {field_word(change, 'state')}  {change.reason}")
        for change in task.state_history
    ]
    return [f"{name + ':':<12}{value.rstrip()}" for name, value in facts if value]


def state_text(task: task_pb2.Task) -> str:
    """The state and why."""
    from aiosd.ctl.plain import field_word

    text = field_word(task, "state")
    if task.resume_pending:
        text += " (resume pending)"
    return f"{text} ({task.state_reason})" if task.state_reason else text


def progress_text(task: task_pb2.Task) -> str:
    """`40% half way`; empty before the first report."""
    if not task.HasField("progress"):
        return ""
    return f"{task.progress.percent:g}% {task.progress.message}".rstrip()


def failure_text(task: task_pb2.Task) -> str:
    """Why a task failed and what is known about it; empty for others."""
    from aiosd.ctl.plain import field_word

    if not task.HasField("failure"):
        return ""
    text = f"{task.failure.message} (reason {task.failure.reason or 'error'}"
    if task.outcome:
        text += f", outcome {field_word(task, 'outcome')}"
    return text + ")"


def waits_for(interruption: Any) -> list[tuple[str, str]]:
    """What an interrupted task asks for."""
    from aiosd.ctl.plain import field_word

    facts = [("Asks", interruption.prompt)]
    facts += [("Option", f"{item.id}  {item.label}") for item in interruption.options]
    if interruption.HasField("auth_request"):
        auth = interruption.auth_request
        facts += [
            ("Needs", " ".join(filter(None, (field_word(auth, "type"), auth.provider)))),
            ("Reason", auth.reason),
            ("Scopes", " ".join(auth.scopes)),
            ("Open", auth.authorization_url),
        ]
    return facts


async def _print_list(
    session: Session,
    client: Client,
    states: list[str],
    capability: str,
    context: str,
    limit: int,
) -> None:
    from aiosd.ctl.plain import plain

    wanted: list[str] = []
    for word in states:
        state = spelled(word, STATES)
        if state is None:
            raise Typed(f"--state: {word!r} is none of {', '.join(STATES)}")
        wanted.append(state)
    found: list[task_pb2.Task] = []
    token = ""
    while len(found) < limit:
        page = await client.list(
            states=wanted,
            capability_id=capability,
            context_id=context,
            limit=min(PAGE, limit - len(found)),
            page_token=token,
        )
        found += page.tasks
        token = page.next_page_token
        if not token:
            break
    session.out.rows(COLUMNS, map(_row, found), [plain(task) for task in found])


def _row(task: task_pb2.Task) -> tuple[str, ...]:
    from aiosd.ctl.plain import field_word, timestamp

    return (
        task.task_id,
        field_word(task, "state"),
        progress_text(task),
        task.capability_id,
        field_word(task.options, "priority"),
        timestamp(task.create_time),
    )
