"""Which daemon is meant, and with which token."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiosd.ctl.arguments import Typed

if TYPE_CHECKING:
    from aiosd.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """What the options say; None for what nobody said."""

    address: str | None = None
    socket: str | None = None
    state_dir: str | None = None
    token_file: str | None = None

    def under(self, other: Target) -> Target:
        """These options, filled up with those given before the command."""
        return Target(
            self.address or other.address,
            self.socket or other.socket,
            self.state_dir or other.state_dir,
            self.token_file or other.token_file,
        )


def find_address(target: Target) -> str:
    """`unix:PATH` or `HOST:PORT`: the options, $AIOSD_ADDRESS, else the daemon's own settings."""
    if target.address:
        return target.address
    if target.socket:
        return f"unix:{Path(target.socket).absolute()}"
    named = os.environ.get("AIOSD_ADDRESS")
    if named and not target.state_dir:
        return named
    return f"unix:{settings(target).socket}"


def find_token(target: Target, address: str) -> str:
    """The bearer token, empty for none.

    Over a Unix socket the kernel says who the caller is, so only a token that somebody named is
    sent; to loopback, and where the state directory was named, the owner's token of it is.
    """
    named = named_token(target)
    if named or address.startswith(("unix:", "/")):
        return named
    if not _is_loopback(address) and not target.state_dir:
        return ""
    owners = state_dir(target) / "token"
    return read_token(owners) if owners.exists() else ""


def named_token(target: Target) -> str:
    """A token that an option or the environment names, empty for none."""
    named = target.token_file or os.environ.get("AIOSD_TOKEN_FILE")
    return read_token(Path(named)) if named else os.environ.get("AIOSD_TOKEN", "")


def approver_token(directory: Path, address: str) -> str:
    """The token of the person who approves, empty where it cannot be read.

    It is not shown to a socket of another user than the one who can read it anyway.
    """
    found = directory / "approver-token"
    if not os.access(found, os.R_OK):
        return ""
    path = Path(address.removeprefix("unix:"))
    if address.startswith("unix:") and path.stat().st_uid != found.stat().st_uid:
        return ""
    return read_token(found)


def is_own(target: Target, address: str) -> bool:
    """Whether the settings from here are those of the daemon at an address."""
    known = settings(target)
    return address in (f"unix:{known.socket}", str(known.grpc_tcp))


def read_token(path: Path) -> str:
    """The token in a file. Raises Typed when it cannot be read."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not ASCII"
        raise Typed(f"cannot read the token file {path}: {reason}") from None


def state_dir(target: Target) -> Path:
    """The daemon's state directory, where it keeps the tokens."""
    return Path(target.state_dir) if target.state_dir else settings(target).state_dir


def _is_loopback(address: str) -> bool:
    host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def settings(target: Target) -> Settings:
    """The settings that a daemon started from here would have. Raises Typed."""
    from aiosd.settings import SettingsError, load_settings

    try:
        return load_settings({"state_dir": target.state_dir}, os.environ)
    except SettingsError as problem:
        raise Typed("; ".join(problem.problems)) from None
