"""`input` and `auth`: give a task what it waits for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed, parse_object
from aiosd.ctl.command import command
from aiosd.ctl.control import print_state

if TYPE_CHECKING:
    from aiosd.api.v1 import interruption_pb2
    from aiosd.ctl.command import Session, TaskId

commands = typer.Typer()

SECRET = "VALUE, @FILE, or - for stdin"  # noqa: S105 (a help text)
INPUT_WORDS = "What the task asks for, as key=value or key:=json."


@command(commands, "input")
async def send_input(
    session: Session,
    task_id: TaskId,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help=INPUT_WORDS)
    ] = None,
    json: Annotated[str | None, typer.Option(help="The answer as a JSON object.")] = None,
    interruption: Annotated[
        str, typer.Option(help="Refuse unless this is the open question.")
    ] = "",
) -> None:
    """Answer a task that waits for input."""
    if not words and json is None:
        raise Typed("write the answer as key=value or with --json")
    answer = parse_object(words or [], json)
    async with session.client() as client:
        print_state(
            session, await client.submit_input(task_id, answer, interruption_id=interruption)
        )


@command(commands, "auth")
async def authenticate(
    session: Session,
    task_id: TaskId,
    code: Annotated[
        str | None, typer.Option(metavar=SECRET, help="oauth2: the authorization code.")
    ] = None,
    state: Annotated[str, typer.Option(help="oauth2: the state that came with the code.")] = "",
    api_key: Annotated[str | None, typer.Option(metavar=SECRET, help="The API key.")] = None,
    username: Annotated[str, typer.Option(help="With --password.")] = "",
    password: Annotated[str | None, typer.Option(metavar=SECRET, help="With --username.")] = None,
    certificate: Annotated[
        str | None, typer.Option(metavar=SECRET, help="A certificate in PEM.")
    ] = None,
    interruption: Annotated[str, typer.Option(help="Refuse unless this is the open one.")] = "",
) -> None:
    """Give a task the credential that it waits for.

    Prefer @FILE or - for secrets: other users of the machine can read command lines.
    """
    from aiosd.api.v1 import interruption_pb2

    given = {
        "oauth2": code,
        "api_key": api_key,
        "password": password,
        "certificate": certificate,
    }
    chosen = [(kind, value) for kind, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise Typed("write exactly one of --code, --api-key, --password and --certificate")
    kind, secret = chosen[0][0], read_secret(chosen[0][1])
    response = interruption_pb2.AuthResponse(
        type=interruption_pb2.AuthType.Value(f"AUTH_TYPE_{kind.upper()}")
    )
    if kind == "oauth2":
        response.authorization_code, response.state = secret, state
    elif kind == "password":
        response.username, response.password = username, secret
    else:
        setattr(response, kind, secret)
    await _send(session, task_id, response, interruption)


async def _send(
    session: Session, task_id: str, response: interruption_pb2.AuthResponse, interruption: str
) -> None:
    async with session.client() as client:
        answer = await client.authenticate(task_id, response, interruption_id=interruption)
        print_state(session, answer.task)


def read_secret(value: str) -> str:
    """The value itself, the content of @FILE, or stdin for `-`; one line end at the end goes."""
    if value == "-":
        text = sys.stdin.read()
    elif value.startswith("@"):
        try:
            text = Path(value[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise Typed(f"cannot read {value[1:]}: {problem}") from None
    else:
        return value
    return text.removesuffix("\n").removesuffix("\r")
