"""How a command is declared: an async function, plus the options that every command has.

    tasks = typer.Typer()

    @command(tasks, "get")
    async def get(session: Session, task_id: Annotated[str, typer.Argument()]) -> int | None:
        async with session.client() as client:
            ...

`session` is made from the common options. The exit code is what the function returns (None: 0);
an error of the SDK becomes one line on stderr and the code that `exit_code` gives it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

from aiosd.ctl import exit_code, output
from aiosd.ctl.arguments import Typed
from aiosd.ctl.discovery import (
    Target,
    approver_token,
    find_address,
    find_token,
    is_own,
    named_token,
    state_dir,
)
from aiosd.ctl.output import Format, Output

if TYPE_CHECKING:
    from aiosd.sdk import AiosdError, Client

Function: TypeAlias = Callable[..., Awaitable[int | None]]

PANEL = "Common options"

TaskId: TypeAlias = Annotated[str, typer.Argument(metavar="TASK")]


def common_options(
    output: Annotated[
        Format | None,
        typer.Option("-o", "--output", help="How data is written.", rich_help_panel=PANEL),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(help="The daemon: unix:/PATH or HOST:PORT.", rich_help_panel=PANEL),
    ] = None,
    socket: Annotated[
        str | None, typer.Option(help="The daemon's Unix socket.", rich_help_panel=PANEL)
    ] = None,
    state_dir: Annotated[
        str | None, typer.Option(help="The daemon's state directory.", rich_help_panel=PANEL)
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="File with a bearer token.", rich_help_panel=PANEL)
    ] = None,
) -> Session:
    """The session that these options describe; its signature declares them for every command."""
    return Session(Target(address, socket, state_dir, token_file), output)


@dataclass(frozen=True, slots=True)
class Session:
    """One run of `aiosctl`: whom to talk to and how to write."""

    target: Target = field(default_factory=Target)
    format: Format | None = None

    @property
    def out(self) -> Output:
        """Where data goes."""
        return Output(self.format or Format.table)

    def under(self, other: Session) -> Session:
        """This session, filled up with the options given before the command."""
        return Session(self.target.under(other.target), self.format or other.format)

    def client(self) -> AbstractAsyncContextManager[Client]:
        """A connection to the daemon."""
        address = find_address(self.target)
        return self._connected(address, find_token(self.target, address))

    @asynccontextmanager
    async def approver(self, *, needed: bool = True) -> AsyncIterator[Client]:
        """A connection as the person who approves; raises Typed without that credential.

        Where it is not `needed`, the caller of `client` does.
        """
        address = find_address(self.target)
        token = await self.approver_token()
        if not token and needed:
            raise Typed(
                f"cannot read the approver's token of the daemon at {address}: name its "
                "--state-dir, or with --token-file a token with the scope permission:approve"
            )
        async with self._connected(address, token or find_token(self.target, address)) as client:
            yield client

    async def approver_token(self) -> str:
        """The person's token, empty where there is none to read.

        One that was named, else that of the daemon that is talked to, which is asked where it
        keeps it: the settings from here may be another daemon's.
        """
        named = named_token(self.target)
        if named:
            return named
        address = find_address(self.target)
        directory = await self.state_dir()
        return "" if directory is None else approver_token(directory, address)

    async def state_dir(self) -> Path | None:
        """The state directory of the daemon that is talked to, None where nobody knows it."""
        from aiosd.sdk import errors

        if self.target.state_dir:
            return Path(self.target.state_dir)
        address, told = find_address(self.target), ""
        try:
            async with self.client() as client:
                told = (await client.system_info()).state_dir
        except errors.NotAuthenticated:
            pass  # who may connect is not always who may ask
        if told:
            return Path(told)
        return state_dir(self.target) if is_own(self.target, address) else None

    @asynccontextmanager
    async def _connected(self, address: str, token: str) -> AsyncIterator[Client]:
        from aiosd.sdk import AiosdError, connect

        async with connect(address, token) as client:
            try:
                yield client
            except AiosdError as error:
                error.metadata.setdefault("address", address)
                raise


# Known in every declaration, so that a module may import them for type checking only.
NAMES = {"Session": Session, "TaskId": TaskId}
COMMON = inspect.signature(common_options)
COMMON_TYPES = {
    name: kind
    for name, kind in get_type_hints(common_options, localns=NAMES, include_extras=True).items()
    if name in COMMON.parameters
}


def command(app: typer.Typer, name: str, *, hidden: bool = False) -> Callable[[Function], Function]:
    """Add an async function to a group of commands; see the module's docstring."""

    def register(function: Function) -> Function:
        def invoke(typer_context: typer.Context, **values: Any) -> None:
            common = common_options(**{key: values.pop(key) for key in COMMON.parameters})
            session = common.under(typer_context.obj or Session())
            check_text(values)
            raise typer.Exit(run(function(session, **values)))

        _declare(invoke, function)
        app.command(name, hidden=hidden)(invoke)
        return function

    return register


def check_text(values: Mapping[str, Any]) -> None:
    """Raise Typed for what was typed in bytes that are no UTF-8."""
    for name, value in values.items():
        for text in value if isinstance(value, list) else [value]:
            try:
                str(text).encode()
            except UnicodeEncodeError:
                raise Typed(f"{name}: {text!a} is not UTF-8") from None


def run(work: Awaitable[int | None]) -> int:
    """Run a command to its end; what goes wrong becomes one line and an exit code."""
    import asyncio

    from aiosd.sdk import errors

    async def whole() -> int:
        return await work or 0

    try:
        return asyncio.run(whole())
    except errors.AiosdError as error:
        output.complain(sentence(error))
        return exit_code.of_error(error)
    except Typed as problem:
        output.complain(problem.message)
        return exit_code.ExitCode.USAGE
    except ValueError as problem:
        output.complain(str(problem))
        return exit_code.ExitCode.USAGE
    except KeyboardInterrupt:
        return exit_code.ExitCode.INTERRUPTED


def sentence(error: AiosdError) -> str:
    """What the daemon said, in one line that names the field."""
    from aiosd.sdk import errors

    if isinstance(error, errors.Unavailable) and not error.reason:
        return f"no daemon answers at {error.metadata.get('address')}: is `aiosd serve` running?"
    said = "; ".join(f"{name}: {problem}" for name, problem in error.violations) or error.message
    if error.metadata.get("allowed"):
        said += f" (it may become {error.metadata['allowed'].replace(',', ', ')})"
    elif error.metadata.get("problem") and error.metadata["problem"] not in said:
        said += f": {error.metadata['problem']}"
    return f"{error.reason or error.code.name}: {said}"


def _declare(invoke: Callable[..., None], function: Function) -> None:
    """Give `invoke` the name, the text and the parameters that typer reads."""
    hints = get_type_hints(function, localns=NAMES, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    parameters = [
        inspect.Parameter(
            "typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        ),
        *(
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            for parameter in own
        ),
        *(
            parameter.replace(
                kind=inspect.Parameter.KEYWORD_ONLY, annotation=COMMON_TYPES[parameter.name]
            )
            for parameter in COMMON.parameters.values()
        ),
    ]
    invoke.__name__ = function.__name__
    invoke.__doc__ = function.__doc__
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
