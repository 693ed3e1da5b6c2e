"""`aiosd`: serve, up, provide, config."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import structlog
import typer

from aiosd import __version__
from aiosd.settings import (
    Settings,
    SettingsError,
    find_config_file,
    load_settings,
    to_environ,
    to_toml,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiosd.adapters.system.redaction import Redactor

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ALREADY_RUNNING = 75

app = typer.Typer(
    name="aiosd",
    help="The task service: one daemon that owns long-running agent tasks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at the settings.", no_args_is_help=True)
app.add_typer(config_app, name="config")

Config: TypeAlias = Annotated[Path | None, typer.Option(help="Configuration file (TOML).")]
StateDirFlag: TypeAlias = Annotated[str | None, typer.Option(help="Where state is kept.")]
SocketFlag: TypeAlias = Annotated[str | None, typer.Option(help="Path of the Unix socket.")]
HttpFlag: TypeAlias = Annotated[str | None, typer.Option(help="HOST:PORT; port 0 takes any.")]
A2aFlag: TypeAlias = Annotated[str | None, typer.Option(help="HOST:PORT of A2A over gRPC.")]
FormatFlag: TypeAlias = Annotated[str | None, typer.Option(help="text or json.")]
LevelFlag: TypeAlias = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]
SetFlag: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE of any setting; repeatable.")
]
LabFlag: TypeAlias = Annotated[bool, typer.Option("--lab", help="Attach the scripted provider.")]


@app.command()
def serve(
    config: Config = None,
    state_dir: StateDirFlag = None,
    socket: SocketFlag = None,
    http: HttpFlag = None,
    a2a_grpc: A2aFlag = None,
    log_format: FormatFlag = None,
    log_level: LevelFlag = None,
    set_: SetFlag = None,
) -> None:
    """Run the daemon."""
    flags = _flags(state_dir, socket, http, a2a_grpc, log_format, log_level, set_)
    settings = _settings(flags, config)
    redactor = _logging(settings)
    import uvloop

    from aiosd.adapters.system.directory import UnsafePathError
    from aiosd.adapters.system.lock import AlreadyRunningError
    from aiosd.daemon import Daemon

    # Our children are spawned without fork; gRPC's fork handlers only get in the way (E20).
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

    async def run() -> None:
        await Daemon(settings, redactor).run()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except AlreadyRunningError as error:
        _fail(str(error), EXIT_ALREADY_RUNNING)
    except UnsafePathError as error:
        _fail(str(error), EXIT_FAILED)


@app.command()
def up(
    lab: LabFlag = False,
    config: Config = None,
    state_dir: StateDirFlag = None,
    socket: SocketFlag = None,
    http: HttpFlag = None,
    a2a_grpc: A2aFlag = None,
    log_format: FormatFlag = None,
    log_level: LevelFlag = None,
    set_: SetFlag = None,
) -> None:
    """Run the daemon, the gateway and the built-in provider, and restart what dies."""
    flags = _flags(state_dir, socket, http, a2a_grpc, log_format, log_level, set_)
    settings = _settings(flags, config)
    _logging(settings)
    from aiosd.adapters.system.notify import Notifier
    from aiosd.stack import stack
    from aiosd.supervisor import StartFailedError, Supervisor

    environ = {**_without_settings(os.environ), **to_environ(settings)}

    async def run() -> None:
        specs = stack(environ, lab=lab)
        await Supervisor(specs, notifier=Notifier.from_environ(os.environ)).run()

    try:
        asyncio.run(run())
    except StartFailedError as error:
        _fail(str(error), error.returncode or EXIT_FAILED)


@app.command()
def provide(
    lab: LabFlag = False,
    config: Config = None,
    state_dir: StateDirFlag = None,
    socket: SocketFlag = None,
    log_format: FormatFlag = None,
    log_level: LevelFlag = None,
    set_: SetFlag = None,
) -> None:
    """Attach the built-in capabilities, or the lab, to a running daemon."""
    flags = _flags(state_dir, socket, None, None, log_format, log_level, set_)
    settings = _settings(flags, config)
    _logging(settings)
    from aiosd.capabilities.provide import provide as run_provider

    asyncio.run(
        run_provider(
            lab=lab, address=f"unix:{settings.socket}", drain_grace_ms=settings.drain_grace_ms
        )
    )


@config_app.command("default")
def config_default() -> None:
    """Print every setting with its default, as a commented TOML file."""
    typer.echo(to_toml(None), nl=False)


@config_app.command("dump")
def config_dump(config: Config = None, set_: SetFlag = None) -> None:
    """Print the settings in force, as a TOML file."""
    settings = _settings(_flags(None, None, None, None, None, None, set_), config)
    typer.echo(to_toml(settings), nl=False)


@config_app.command("check")
def config_check(config: Config = None, set_: SetFlag = None) -> None:
    """Say whether the settings are valid; exit code 2 if they are not."""
    _settings(_flags(None, None, None, None, None, None, set_), config)
    found = config or find_config_file(os.environ)
    typer.echo(f"ok: {found}" if found else "ok: no configuration file, defaults and environment")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> int:
    """Run the command line; the exit code."""
    try:
        app()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_FAILED
    return 0


def _flags(
    state_dir: str | None,
    socket: str | None,
    http: str | None,
    a2a_grpc: str | None,
    log_format: str | None,
    log_level: str | None,
    set_: list[str] | None,
) -> dict[str, object]:
    flags: dict[str, object] = {
        "state_dir": state_dir,
        "socket": socket,
        "http": http,
        "a2a_grpc": a2a_grpc,
        "log_format": log_format,
        "log_level": log_level,
    }
    for given in set_ or ():
        name, equals, value = given.partition("=")
        if not equals:
            _fail(f"--set {given}: must be NAME=VALUE", EXIT_USAGE)
        flags[name] = value
    return flags


def _settings(flags: Mapping[str, object], config: Path | None) -> Settings:
    try:
        return load_settings(flags, os.environ, config)
    except SettingsError as error:
        for problem in error.problems:
            sys.stderr.write(f"aiosd: {problem}\n")
        raise typer.Exit(EXIT_USAGE) from None


def _without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What children get besides the settings, which are handed to them whole."""
    return {name: value for name, value in environ.items() if not name.startswith("AIOSD_")}


def _logging(settings: Settings) -> Redactor:
    from aiosd.adapters.system.logging import configure_logging

    redactor = configure_logging(settings.log_format, settings.log_level)
    structlog.get_logger("aiosd").debug("settings.loaded", state_dir=str(settings.state_dir))
    return redactor


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"aiosd: {message}\n")
    raise typer.Exit(code)
