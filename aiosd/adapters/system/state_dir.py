"""The state directory: ours alone, one daemon at a time (S-01, S-03, S-30)."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from typing import TYPE_CHECKING, Final, Self

from aiosd.adapters.system.directory import private_directory
from aiosd.adapters.system.lock import FileLock

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

RESERVE_BYTES: Final = 8 * 1024 * 1024
_PR_SET_DUMPABLE = 4


class StateDir:
    """An open state directory: it exists, is private, and this process owns its lock."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create or check the directory and lock it, before anything in it is touched.

        Raises UnsafePathError when the directory must not be used, AlreadyRunningError with the
        owner's pid when another daemon has it.
        """
        private_directory(path, exclusive=True)
        lock = FileLock.acquire(path / "lock", what=f"the state directory {path}")
        return cls(path, lock)

    def close(self) -> None:
        """Let another daemon have it. The last thing that a stopping daemon does."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def harden_process() -> None:
    """Keep what this process holds from other users: umask 0077, no core dump, no ptrace (S-30).

    To be called first of all: everything that is created later inherits it.
    """
    os.umask(0o077)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_DUMPABLE): {os.strerror(code)}")


def create_reserve(path: Path, size: int = RESERVE_BYTES) -> bool:
    """Set space aside that can be freed when the disk is full (E18).

    A store without any room cannot even be opened for reading. False when there is no room for
    the reserve now; nothing is left behind then.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        path.unlink()
        return False
    finally:
        os.close(descriptor)
    return True


def release_reserve(path: Path) -> bool:
    """Free the reserve; False when there is none."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
