"""`token create`, `token list` and `token revoke`: credentials for programs and people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import parse_duration_ms
from aiosd.ctl.command import command

if TYPE_CHECKING:
    from aiosd.api.v1 import access_service_pb2
    from aiosd.ctl.command import Session

group = typer.Typer(help="Make, list and end access tokens.", no_args_is_help=True)

COLUMNS = ("TOKEN", "PRINCIPAL", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "REVOKED")


@command(group, "create")
async def create(
    session: Session,
    principal: Annotated[str, typer.Option(help="Who its bearer is.")],
    scope: Annotated[
        list[str], typer.Option(help="What its bearer may do, such as task:create; repeatable.")
    ],
    lifetime: Annotated[
        str | None, typer.Option(help="When it ends, such as 30d; without it, never.")
    ] = None,
) -> None:
    """Make a token and print its text, which is shown only now."""
    from aiosd.ctl.access_calls import create_token

    ends = 0 if lifetime is None else parse_duration_ms(lifetime)
    async with session.approver(needed=False) as client:
        made = await create_token(client, principal, scope, ends)
    if session.out.for_people:
        session.out.line(made.secret)
        session.out.note(f"{made.token.token_id}: keep the text, it cannot be shown again")
    else:
        session.out.value({"id": made.token.token_id, "token": made.secret})


@command(group, "list")
async def list_(session: Session) -> None:
    """List tokens, ended ones too."""
    from aiosd.ctl.access_calls import list_tokens
    from aiosd.ctl.plain import plain

    async with session.approver(needed=False) as client:
        found = await list_tokens(client)
    session.out.rows(COLUMNS, map(_row, found), [plain(one) for one in found])


@command(group, "revoke")
async def revoke(
    session: Session, token_id: Annotated[str, typer.Argument(metavar="TOKEN")]
) -> None:
    """End a token at once."""
    from aiosd.ctl.access_calls import revoke_token

    async with session.approver(needed=False) as client:
        await revoke_token(client, token_id)
    if session.out.for_people:
        session.out.line(f"{token_id}  revoked")
    else:
        session.out.value({"id": token_id, "revoked": True})


def _row(token: access_service_pb2.Token) -> tuple[str, ...]:
    from aiosd.ctl.plain import timestamp

    times = ("create_time", "expire_time", "last_use_time", "revoke_time")
    return (
        token.token_id,
        token.principal,
        ",".join(token.scopes),
        *(timestamp(getattr(token, name)) if token.HasField(name) else "-" for name in times),  # type: ignore[arg-type]
    )
