"""One owner for a directory or a socket: advisory file locks that die with their holder."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


class AlreadyRunningError(Exception):
    """Another process owns the thing. Callers exit 75 (EX_TEMPFAIL), see S-03."""

    def __init__(self, what: str, pid: int | None) -> None:
        owner = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{what} is in use by {owner}")
        self.what = what
        self.pid = pid
        """The owner, or None when it could not be told."""


class FileLock:
    """An exclusive `flock`, with the holder's pid as the text of the file.

    The file stays when the lock is given up: removing it would let two processes hold locks on
    two files of one name.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path, *, what: str) -> Self:
        """Take the lock or raise AlreadyRunningError at once; `what` names the thing owned."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            raise AlreadyRunningError(what, int(owner) if owner.isdigit() else None) from None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
