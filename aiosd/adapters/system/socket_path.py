"""The path of the Unix socket: checked, owned, private from birth, removed only if ours."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
from typing import TYPE_CHECKING, Final, Self

from aiosd.adapters.system.directory import UnsafePathError, private_directory
from aiosd.adapters.system.lock import AlreadyRunningError, FileLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_PATH_BYTES: Final = 107
_CONNECT_TIMEOUT_S = 1.0


class SocketPath:
    """The right to bind one socket path, held from `claim` to `release`.

    gRPC removes whatever lies at the path when it binds and when it stops, another server's live
    socket too (E06); so a lock beside the socket decides who may try.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock
        self._inode: tuple[int, int] | None = None

    @classmethod
    def claim(cls, path: Path) -> Self:
        """Check path and directory, take the lock, remove a dead socket.

        Raises UnsafePathError (too long, unsafe directory, something else lies there) and
        AlreadyRunningError (a live server has it).
        """
        length = len(os.fsencode(path))
        if length > MAX_PATH_BYTES:
            raise UnsafePathError(
                f"the socket path has {length} bytes, the kernel allows {MAX_PATH_BYTES}; "
                f"choose a shorter one with --socket: {path}"
            )
        private_directory(path.parent, exclusive=False)
        lock = FileLock.acquire(path.with_name(f"{path.name}.lock"), what=f"the socket {path}")
        try:
            _remove_dead_socket(path)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock)

    @contextlib.contextmanager
    def binding(self) -> Iterator[None]:
        """Bind inside this block: the socket has mode 0600 from its first moment (S-02).

        The umask is the whole process's, so keep the block short and without waiting. On leaving
        it the socket's inode is remembered.
        """
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)
        self._inode = _inode(self.path)

    def share(self) -> None:
        """Let every local user connect; who they are, their tokens say (S-05)."""
        self.path.parent.chmod(0o711)
        self.path.chmod(0o666)

    def release(self) -> None:
        """Remove the socket if it is still the one bound here, and give up the lock."""
        if self._inode is not None and _inode(self.path) == self._inode:
            self.path.unlink(missing_ok=True)
        self._inode = None
        self._lock.release()


def _remove_dead_socket(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise UnsafePathError(f"{path} is a symbolic link, not a socket: remove it")
    if not stat.S_ISSOCK(mode):
        raise UnsafePathError(f"{path} exists and is not a socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
        except FileNotFoundError:
            return
        except TimeoutError:
            raise AlreadyRunningError(f"the socket {path}", None) from None
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise AlreadyRunningError(f"the socket {path}", None) from None
            raise UnsafePathError(f"cannot tell who owns {path}: {error.strerror}") from error
        else:
            raise AlreadyRunningError(f"the socket {path}", _peer_pid(probe))


def _peer_pid(connection: socket.socket) -> int | None:
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return pid or None


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
