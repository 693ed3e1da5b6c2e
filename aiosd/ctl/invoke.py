"""`invoke`: run a capability over HTTP and never run it twice (Y16, R158)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed, parse_duration_ms, parse_object
from aiosd.ctl.command import command
from aiosd.ctl.discovery import find_token
from aiosd.ctl.exit_code import ExitCode

if TYPE_CHECKING:
    from aiosd.ctl.command import Session

commands = typer.Typer()

GATEWAY = "http://127.0.0.1:9527"
_CODES = {
    "completed": ExitCode.COMPLETED,
    "canceled": ExitCode.CANCELED,
    "input_required": ExitCode.INPUT_REQUIRED,
    "auth_required": ExitCode.AUTH_REQUIRED,
    "timeout": ExitCode.TIMEOUT,
}


@command(commands, "invoke")
async def invoke(
    session: Session,
    capability_id: Annotated[str, typer.Argument(metavar="CAPABILITY")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Arguments.")
    ] = None,
    json: Annotated[str | None, typer.Option(help="Arguments as a JSON object.")] = None,
    http: Annotated[str, typer.Option(help="The gateway.")] = GATEWAY,
    timeout: Annotated[
        str | None, typer.Option(help="How long one request waits; the task goes on after it.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key and request give the same task.")
    ] = None,
) -> int:
    """Run a capability over HTTP, wait for its task, and print it.

    A request that runs out of time is no failure: the task is asked for until it ends, and it is
    never submitted again while it is open.
    """
    from aiosd.sdk import http_invoke

    arguments = parse_object(words or [], json)
    try:
        task = await http_invoke.invoke(
            http,
            capability_id,
            arguments,
            token=find_token(session.target, http),
            timeout_ms=None if timeout is None else parse_duration_ms(timeout),
            idempotency_key=idempotency_key,
        )
    except (http_invoke.HttpRefused, OSError, ValueError) as error:
        raise Typed(f"{http}: {error}") from None
    session.out.value(task)
    return code_of(str(task["status"]))


def code_of(status: str) -> int:
    """The exit code for a status of the OpenAPI wire."""
    return _CODES.get(status, ExitCode.FAILED)
