"""`info` and `doctor`: what the daemon is, and whether all is well."""

from __future__ import annotations

import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from aiosd import __version__
from aiosd.ctl import exit_code
from aiosd.ctl.command import command, sentence
from aiosd.ctl.discovery import find_address, is_own, state_dir

if TYPE_CHECKING:
    from aiosd.ctl.command import Session

commands = typer.Typer()


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    ok: bool
    finding: str


@command(commands, "info")
async def info(session: Session) -> None:
    """Show the daemon's version, limits and load, and who it takes you for."""
    from aiosd.ctl.plain import plain

    async with session.client() as client:
        values = plain(await client.system_info())
    if not session.out.for_people:
        session.out.value(values)
        return
    limits = values.pop("limits", {})
    for name, value in {**values, **limits}.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        session.out.line(f"{name.replace('_', ' ') + ':':<24}{shown}")


@command(commands, "doctor")
async def doctor(session: Session) -> int:
    """Check that a daemon is there and well; exits with 1 if something is wrong, 69 if it is not.

    Checks the socket, the versions of both sides, what is degraded, the attached providers and
    the permissions of the token file.
    """
    address = find_address(session.target)
    found, reached = await _daemon(session)
    findings = [_socket(address), await _token_file(session), *found]
    rows = [("ok" if item.ok else "PROBLEM", item.check, item.finding) for item in findings]
    session.out.rows(("", "CHECK", "FINDING"), rows, [asdict(item) for item in findings])
    if not reached:
        return exit_code.ExitCode.UNREACHABLE
    return exit_code.ExitCode.COMPLETED if all(item.ok for item in findings) else 1


async def _daemon(session: Session) -> tuple[list[Finding], bool]:
    """What the daemon says of itself, and whether it said anything."""
    from aiosd.ctl.system_calls import list_providers
    from aiosd.sdk import AiosdError, errors

    try:
        async with session.client() as client:
            info = await client.system_info()
            providers = await list_providers(client)
    except AiosdError as error:
        away = isinstance(error, errors.Unavailable)
        return [Finding("daemon", False, sentence(error))], not away
    away_now = [provider.name for provider in providers if not provider.connected]
    return [
        Finding("daemon", True, f"answers as {info.principal or 'nobody'}, store {info.store}"),
        Finding(
            "version",
            info.version == __version__,
            f"daemon {info.version}, aiosctl {__version__}",
        ),
        Finding("degraded", not info.degraded, ", ".join(info.degraded) or "nothing"),
        Finding(
            "providers",
            bool(providers) and not away_now,
            f"{len(providers)} attached"
            + (f", without a connection: {', '.join(away_now)}" if away_now else ""),
        ),
        Finding(
            "load",
            info.queued_tasks < info.limits.max_queue_size,
            f"{info.working_tasks} of {info.limits.max_concurrent_tasks} working, "
            f"{info.queued_tasks} of {info.limits.max_queue_size} queued",
        ),
    ], True


async def _state_dir(session: Session) -> Path | None:
    from aiosd.sdk import AiosdError

    try:
        return await session.state_dir()
    except AiosdError:
        known = is_own(session.target, find_address(session.target))
        return state_dir(session.target) if known else None


def _socket(address: str) -> Finding:
    if not address.startswith("unix:"):
        return Finding("address", True, address)
    path = Path(address.removeprefix("unix:"))
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as problem:
        return Finding("address", False, f"{path}: {problem.strerror}")
    return Finding("address", is_socket, f"{path}" if is_socket else f"{path} is no socket")


async def _token_file(session: Session) -> Finding:
    if session.target.token_file:
        path = Path(session.target.token_file)
    else:
        directory = await _state_dir(session)
        if directory is None:
            return Finding("token file", True, "not known from here")
        path = directory / "token"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return Finding("token file", True, f"{path}: none that can be read from here")
    return Finding("token file", mode & 0o077 == 0, f"{path} has mode {mode:04o}")
