"""All groups of commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from aiosd import __version__
from aiosd.ctl import (
    answers,
    approvals,
    artifacts,
    audit,
    control,
    daemon_state,
    follow,
    invoke,
    judgement,
    operations,
    registry,
    run_task,
    tasks,
    tokens,
    webhooks,
)
from aiosd.ctl.command import common_options
from aiosd.ctl.output import Format, Output

app = typer.Typer(
    help="Talk to aiosd, the task service: run tasks, watch them, answer them, fetch what they "
    "made.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(asked: bool) -> None:
    """Print the version and stop, for `--version`."""
    if asked:
        Output().line(f"aiosctl {__version__}")
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    output: Annotated[
        Format | None, typer.Option("-o", "--output", help="How data is written.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="The daemon: unix:/PATH or HOST:PORT.")
    ] = None,
    socket: Annotated[str | None, typer.Option(help="The daemon's Unix socket.")] = None,
    state_dir: Annotated[str | None, typer.Option(help="The daemon's state directory.")] = None,
    token_file: Annotated[str | None, typer.Option(help="File with a bearer token.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Take the common options before the command as well as after it."""
    context.obj = common_options(output, address, socket, state_dir, token_file)


for module in (
    run_task,
    invoke,
    tasks,
    follow,
    control,
    answers,
    approvals,
    judgement,
    artifacts,
    registry,
    daemon_state,
    operations,
):
    app.add_typer(module.commands)
app.add_typer(artifacts.group, name="artifact")
app.add_typer(webhooks.group, name="webhooks")
app.add_typer(audit.group, name="audit")
app.add_typer(operations.group, name="operations")
app.add_typer(tokens.group, name="token")
