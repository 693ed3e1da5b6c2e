"""Which daemon is meant, and with which token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    sent; elsewhere the owner's token of the state directory is.
    """
    named = target.token_file or os.environ.get("AIOSD_TOKEN_FILE")
    if named:
        return read_token(Path(named))
    if os.environ.get("AIOSD_TOKEN"):
        return os.environ["AIOSD_TOKEN"]
    owners = None if address.startswith(("unix:", "/")) else state_dir(target) / "token"
    return read_token(owners) if owners is not None and owners.exists() else ""


def find_approver_token(target: Target) -> str | None:
    """The person's token: one that was named, else that of the state directory; None for none."""
    named = target.token_file or os.environ.get("AIOSD_TOKEN_FILE")
    if named:
        return read_token(Path(named))
    if os.environ.get("AIOSD_TOKEN"):
        return os.environ["AIOSD_TOKEN"]
    found = approver_file(target)
    return read_token(found) if os.access(found, os.R_OK) else None


def approver_file(target: Target) -> Path:
    """Where the daemon keeps the token of the person who approves."""
    return state_dir(target) / "approver-token"


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


def settings(target: Target) -> Settings:
    """The settings that a daemon started from here would have. Raises Typed."""
    from aiosd.settings import SettingsError, load_settings

    try:
        return load_settings({"state_dir": target.state_dir}, os.environ)
    except SettingsError as problem:
        raise Typed("; ".join(problem.problems)) from None
