"""Secrets in files of mode 0600: bearer tokens of the owner and the approver, keys (S-08, S-28)."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aiosd.adapters.system.directory import UnsafePathError
from aiosd.adapters.system.ids import new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_BYTES = 4096


class Credentials(NamedTuple):
    """The two bearer tokens of a state directory (design 16)."""

    owner: str
    approver: str


def owner_token_path(state_dir: Path) -> Path:
    """Where the owner's program token is."""
    return state_dir / "token"


def approver_token_path(state_dir: Path) -> Path:
    """Where the token of the person who approves is."""
    return state_dir / "approver-token"


def open_credentials(state_dir: Path) -> Credentials:
    """Read both tokens; the ones that are missing are made first."""
    return Credentials(
        owner=read_or_create(owner_token_path(state_dir), new_token),
        approver=read_or_create(approver_token_path(state_dir), new_token),
    )


def open_key(path: Path) -> bytes:
    """A 256-bit key kept as 64 hex digits; made when it is missing."""
    return _key(read_or_create(path, lambda: secrets.token_hex(32)), path)


def handed_key(name: str, environ: Mapping[str, str]) -> bytes | None:
    """A key that the service manager handed over as the credential `name`; None without one.

    systemd puts credentials into $CREDENTIALS_DIRECTORY, which only the service can read, with
    owners and modes of its own. Raises UnsafePathError for one that is there and is no key: what
    was handed over is used or the start fails.
    """
    directory = environ.get("CREDENTIALS_DIRECTORY", "")
    path = Path(directory, name)
    if not directory or not os.path.lexists(path):
        return None
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except OSError as error:
        raise UnsafePathError(f"cannot read the credential {path}: {error.strerror}") from error
    return _key(content.decode("utf-8", "replace").strip(), path)


def _key(text: str, path: Path) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise UnsafePathError(f"{path} does not hold a key: 64 hex digits are expected")
    return key


def read_or_create(path: Path, make: Callable[[], str]) -> str:
    """The secret in `path`; when there is no such file it is made, whole or not at all.

    Of two processes that create it at the same time both get the same one. Raises UnsafePathError
    as `read_secret` does.
    """
    if not os.path.lexists(path):
        _create(path, make())
    return read_secret(path)


def read_secret(path: Path) -> str:
    """The secret in `path`, without the line end.

    Raises UnsafePathError when the file is a link, not ours, open to other users, empty or far
    too long, and FileNotFoundError when it is missing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsafePathError(f"cannot read the secret {path}: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafePathError(f"{path} is not a regular file")
        if found.st_uid != os.geteuid():
            raise UnsafePathError(f"{path} belongs to uid {found.st_uid} and not to us")
        if mode & 0o077:
            raise UnsafePathError(
                f"{path} is open to other users (mode {mode:04o}): run chmod 600 on it, and "
                f"replace the secret if somebody may have read it"
            )
        content = os.read(descriptor, _MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    secret = content.decode("utf-8", "replace").strip()
    if not secret or len(content) > _MAX_BYTES:
        raise UnsafePathError(f"{path} does not hold a secret")
    return secret


def _create(path: Path, secret: str) -> None:
    """Write beside, then link: a crash leaves no half file, and the first of two creators wins."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{secret}\n".encode())
        os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        os.close(descriptor)
        draft.unlink()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
