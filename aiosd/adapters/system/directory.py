"""Private directories, and the checks that make one safe to use (S-01, S-30)."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class UnsafePathError(Exception):
    """A path must not be used as it is; the text says why and what to do."""


def private_directory(path: Path, *, exclusive: bool) -> None:
    """Create `path` with mode 0700, or check the one that is there.

    Refused with UnsafePathError: a symbolic link, no directory, another user's, or one that group
    or others may write to, since files may have been planted in it. With `exclusive` a directory
    that others may only read is closed to them (0700); else it is left as it is.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
    except OSError as error:
        raise UnsafePathError(f"cannot create the directory {path}: {error.strerror}") from error
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise UnsafePathError(f"{path} is a symbolic link: name the directory itself")
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafePathError(f"{path} is not a directory")
    if found.st_uid != os.geteuid():
        raise UnsafePathError(
            f"{path} belongs to uid {found.st_uid} and not to us (uid {os.geteuid()})"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022:
        raise UnsafePathError(
            f"{path} may be written to by other users (mode {mode:04o}): run chmod 700 on it"
        )
    if exclusive and mode & 0o077:
        path.chmod(0o700)
