"""`operations create|get|list|watch|cancel|close` and `instances`: control attached runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed, parse_duration_ms, parse_object
from aiosd.ctl.command import command
from aiosd.ctl.exit_code import ExitCode
from aiosd.ctl.output import Format, Output

if TYPE_CHECKING:
    from aiosd.api.v1 import operation_pb2
    from aiosd.ctl.command import Session
    from aiosd.sdk import Client

commands = typer.Typer()
group = typer.Typer(help="Control commands to attached runtimes.", no_args_is_help=True)

OperationId = Annotated[str, typer.Argument(metavar="OPERATION")]
SCOPES = ("instance", "agent", "conversation")
PAGE = 200


@command(group, "create")
async def create(
    session: Session,
    target: Annotated[
        str, typer.Argument(help="An instance, or INSTANCE:NAME of an agent or conversation.")
    ],
    method: Annotated[str, typer.Argument()],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Parameters.")
    ] = None,
    json: Annotated[str | None, typer.Option(help="Parameters as a JSON object.")] = None,
    scope: Annotated[str, typer.Option(help="instance, agent or conversation.")] = "instance",
    deadline: Annotated[str | None, typer.Option(help="Execution limit, such as 30s.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key and request give the same operation.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait.")] = False,
) -> int:
    """Ask for an operation and wait until nothing can follow."""
    if scope not in SCOPES:
        raise Typed(f"--scope: {scope!r} is none of {', '.join(SCOPES)}")
    params = parse_object(words or [], json)
    deadline_ms = 0 if deadline is None else parse_duration_ms(deadline)
    async with session.client() as client:
        made = await client.operations.create(
            target, method, params, scope=scope, deadline_ms=deadline_ms, request_id=idempotency_key
        )
        if not detach:
            made = await client.operations.wait(made.operation_id)
    _print(session, made)
    return ExitCode.COMPLETED if detach else code_of(made)


@command(group, "get")
async def get(session: Session, operation_id: OperationId) -> None:
    """Show an operation."""
    async with session.client() as client:
        _print(session, await client.operations.get(operation_id))


@command(group, "list")
async def list_operations(
    session: Session,
    active: Annotated[bool, typer.Option("--active", help="Only those that can go on.")] = False,
    instance: Annotated[str, typer.Option(help="Only of this instance.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 50,
) -> None:
    """List your operations, newest first."""
    from aiosd.ctl.plain import field_word, plain, timestamp

    async with session.client() as client:
        found = await _list(client, active, instance, limit)
    rows = [
        (
            one.operation_id,
            field_word(one, "status"),
            one.instance_id,
            one.method,
            timestamp(one.create_time),
        )
        for one in found
    ]
    columns = ("OPERATION", "STATUS", "INSTANCE", "METHOD", "CREATED")
    session.out.rows(columns, rows, [plain(one) for one in found])


@command(group, "watch")
async def watch(
    session: Session,
    operation_id: OperationId,
    after: Annotated[int, typer.Option(min=0, help="Begin behind this event number.")] = 0,
) -> int:
    """Follow an operation until nothing can follow."""
    from aiosd.ctl.plain import field_word, plain

    async with session.client() as client:
        async for event in client.operations.subscribe(operation_id, after):
            if session.out.for_people:
                status = field_word(event.snapshot, "status")
                session.out.line(f"{event.sequence:>5}  {event.type}  {status}")
            else:
                Output(Format.jsonl).value(plain(event))
        return code_of(await client.operations.get(operation_id))


@command(group, "cancel")
async def cancel(
    session: Session,
    operation_id: OperationId,
    reason: Annotated[str, typer.Option(help="Kept with the request.")] = "",
) -> None:
    """Ask for an operation to stop; refused once its effect has happened."""
    async with session.client() as client:
        _print(session, await client.operations.cancel(operation_id, reason))


@command(group, "close")
async def close(session: Session, operation_id: OperationId) -> None:
    """Give a blocked projection up for good."""
    async with session.client() as client:
        _print(session, await client.operations.close(operation_id))


@command(commands, "instances")
async def instances(
    session: Session,
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE", help="Only this one.")] = "",
) -> None:
    """List the runtimes that can be controlled, or show one with its state, as JSON."""
    from aiosd.ctl.plain import plain

    async with session.client() as client:
        if instance_id:
            session.out.value(plain(await client.operations.instance(instance_id)))
            return
        found = await client.operations.instances()
    rows = [
        (
            one.instance_id,
            one.name,
            "yes" if one.attached else "no",
            str(one.revision),
            " ".join(one.methods),
        )
        for one in found
    ]
    columns = ("INSTANCE", "NAME", "ATTACHED", "REVISION", "METHODS")
    session.out.rows(columns, rows, [plain(one) for one in found])


def code_of(operation: operation_pb2.Operation) -> ExitCode:
    """The exit code of an operation that was waited for."""
    from aiosd.ctl.plain import field_word

    return {
        "succeeded": ExitCode.COMPLETED,
        "cancelled": ExitCode.CANCELED,
        "expired": ExitCode.TIMEOUT,
        "outcome_unknown": ExitCode.UNCERTAIN,
    }.get(field_word(operation, "status"), ExitCode.FAILED)


async def _list(
    client: Client, active: bool, instance: str, limit: int
) -> list[operation_pb2.Operation]:
    found: list[operation_pb2.Operation] = []
    token = ""
    while len(found) < limit:
        page = await client.operations.list(
            active=active,
            instance_id=instance,
            limit=min(PAGE, limit - len(found)),
            page_token=token,
        )
        found += page.operations
        token = page.next_page_token
        if not token:
            break
    return found


def _print(session: Session, operation: operation_pb2.Operation) -> None:
    from aiosd.ctl.plain import field_word, plain

    if not session.out.for_people:
        session.out.value(plain(operation))
        return
    line = f"{operation.operation_id}  {field_word(operation, 'status')}"
    if operation.HasField("error"):
        line += f"  {operation.error.code}: {operation.error.message}"
    elif operation.result:
        line += f"  {operation.result}"
    session.out.line(line)
