"""`approve`, `deny`, `inbox`, `permissions` and `revoke`: what a person decides."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed
from aiosd.ctl.command import command
from aiosd.ctl.exit_code import ExitCode

if TYPE_CHECKING:
    from aiosd.api.v1 import permission_pb2, task_pb2, task_service_pb2
    from aiosd.ctl.command import Session, TaskId
    from aiosd.sdk import Client

commands = typer.Typer()

INBOX = ("TASK", "WAITS FOR", "CAPABILITY", "PRINCIPAL", "UNTIL", "ASKS")
GRANTS = ("GRANT", "PERMISSION", "LEVEL", "SCOPE", "LIVES", "PRINCIPAL", "EXPIRES")


@command(commands, "approve")
async def approve(
    session: Session,
    task_id: TaskId,
    confirm: Annotated[
        str, typer.Option(metavar="ID", help="Critical: what the first approval printed.")
    ] = "",
) -> int:
    """Allow what a task waits for. Critical ones need a second approval with --confirm."""
    async with session.approver() as client:
        answer = await decide(client, task_id, approve=True, confirm=confirm)
        asks = answer.confirmation_id and session.out.for_people and at_terminal()
        if asks and typer.confirm("critical: confirm a second time?", err=True):
            answer = await decide(client, task_id, approve=True, confirm=answer.confirmation_id)
    return _print(session, answer)


@command(commands, "deny")
async def deny(session: Session, task_id: TaskId) -> int:
    """Refuse what a task waits for: it fails and never runs."""
    async with session.approver() as client:
        answer = await decide(client, task_id, approve=False)
    return _print(session, answer)


@command(commands, "inbox")
async def inbox(session: Session) -> None:
    """List what waits for a person: questions, approvals, credentials."""
    from aiosd.ctl.plain import plain

    found: list[task_pb2.Task] = []
    async with session.approver(needed=False) as client:
        token = ""
        while True:
            page = await client.list(limit=200, page_token=token, waiting_for_me=True)
            found += page.tasks
            token = page.next_page_token
            if not token:
                break
    session.out.rows(INBOX, map(_waiting, found), [plain(task) for task in found])


@command(commands, "permissions")
async def permissions(
    session: Session,
    capability: Annotated[str, typer.Option(help="Only what this capability needs.")] = "",
) -> None:
    """List the permissions that were granted and hold."""
    from aiosd.ctl.access_calls import list_grants
    from aiosd.ctl.plain import plain

    async with session.approver(needed=False) as client:
        found = await list_grants(client, capability)
    session.out.rows(GRANTS, map(_grant, found), [plain(grant) for grant in found])


@command(commands, "revoke")
async def revoke(
    session: Session,
    grant: Annotated[str, typer.Argument(metavar="[GRANT]")] = "",
    capability: Annotated[str, typer.Option(help="All that this capability was granted.")] = "",
) -> None:
    """Take a permission back, at once."""
    from aiosd.ctl.access_calls import revoke_grants

    if bool(grant) == bool(capability):
        raise Typed("write either a grant or --capability")
    async with session.approver(needed=False) as client:
        count = await revoke_grants(client, grant, capability)
    if session.out.for_people:
        session.out.line(f"{count} revoked")
    else:
        session.out.value({"revoked": count})


async def decide(
    client: Client, task_id: str, *, approve: bool, confirm: str = ""
) -> task_service_pb2.AuthenticateTaskResponse:
    """Answer an approval. Raises AiosdError."""
    from aiosd.api.v1 import interruption_pb2

    response = interruption_pb2.AuthResponse(
        type=interruption_pb2.AUTH_TYPE_APPROVAL, approve=approve, confirmation_id=confirm
    )
    return await client.authenticate(task_id, response)


async def settle(session: Session, task: task_pb2.Task, *, approved: bool) -> bool:
    """Decide about a task that was just run, if a person is here to do it; False if nobody is.

    `approved`: the person said so on the command line; that is not enough for a critical one. For
    low and medium the command itself is that word: whoever can read the approver's token typed it
    and knows what it runs. High ones are asked about each time (R116, R117).
    """
    if not await session.approver_token():
        return False
    asked = task.interruption.auth_request
    critical = asked.confirmations_required > 1
    if asked.permission_level in ("low", "medium"):
        session.out.note(f"allowed, {asked.permission_level}: {', '.join(asked.permissions)}")
        approved = True
    if not (approved and not critical) and not at_terminal():
        return False
    async with session.approver() as client:
        if approved and not critical:
            await decide(client, task.task_id, approve=True)
            return True
        session.out.note(task.interruption.prompt)
        allowed = typer.confirm("allow?", err=True)
        answer = await decide(client, task.task_id, approve=allowed)
        if answer.confirmation_id:
            again = typer.confirm("critical: confirm a second time?", err=True)
            await decide(client, task.task_id, approve=again, confirm=answer.confirmation_id)
    return True


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _print(session: Session, answer: task_service_pb2.AuthenticateTaskResponse) -> int:
    from aiosd.ctl.plain import plain
    from aiosd.ctl.tasks import state_text

    task = answer.task
    waits = bool(answer.confirmation_id)
    if session.out.for_people:
        session.out.line(f"{task.task_id}  {state_text(task)}")
    else:
        session.out.value(
            {
                "task": plain(task),
                "confirmations": answer.confirmations,
                "confirmation_id": answer.confirmation_id,
            }
        )
    if waits:
        session.out.note(
            f"1 of 2; confirm: aiosctl approve {task.task_id} --confirm {answer.confirmation_id}"
        )
    return ExitCode.AUTH_REQUIRED if waits else ExitCode.COMPLETED


def _waiting(task: task_pb2.Task) -> tuple[str, ...]:
    from aiosd.ctl.plain import field_word, timestamp

    wait = task.interruption
    kind = field_word(wait.auth_request, "type") if wait.HasField("auth_request") else "input"
    until = timestamp(wait.expire_time) if wait.HasField("expire_time") else "-"
    return (task.task_id, kind, task.capability_id, task.principal, until, wait.prompt)


def _grant(grant: permission_pb2.Grant) -> tuple[str, ...]:
    from aiosd.ctl.plain import field_word, timestamp

    return (
        grant.grant_id,
        grant.permission_id,
        field_word(grant, "level"),
        grant.scope or "*",
        field_word(grant, "duration"),
        grant.principal,
        timestamp(grant.expire_time) if grant.HasField("expire_time") else "-",
    )
