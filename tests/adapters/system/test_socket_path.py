"""The socket path is checked, private from birth, has one owner and is removed only by it."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd.adapters.system.directory import UnsafePathError
from aiosd.adapters.system.lock import AlreadyRunningError
from aiosd.adapters.system.socket_path import SocketPath

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A short private directory: socket paths have a small bound."""
    with tempfile.TemporaryDirectory(prefix="aiosd-") as folder:
        yield Path(folder)


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.fspath(path))
    server.listen()
    return server


@pytest.mark.req("S-01", "S-02")
def test_a_bound_socket_is_private_from_birth(runtime: Path) -> None:
    claim = SocketPath.claim(runtime / "run" / "a.sock")
    umask = os.umask(0o022)
    try:
        with claim.binding(), listening(claim.path):
            assert stat.S_IMODE(claim.path.stat().st_mode) == 0o600
        after = os.umask(0o022)
    finally:
        os.umask(umask)

    assert after == 0o022
    assert stat.S_IMODE(claim.path.parent.stat().st_mode) == 0o700
    claim.release()
    assert not claim.path.exists()


@pytest.mark.req("S-04")
def test_a_long_path_is_refused_with_its_length(runtime: Path) -> None:
    longest = runtime / ("x" * (107 - len(str(runtime)) - 1))
    too_long = runtime / ("y" * (108 - len(str(runtime)) - 1))

    SocketPath.claim(longest).release()
    with pytest.raises(UnsafePathError, match="has 108 bytes, the kernel allows 107"):
        SocketPath.claim(too_long)


@pytest.mark.req("S-03", "I44")
def test_a_second_claim_learns_who_has_the_first(runtime: Path) -> None:
    claim = SocketPath.claim(runtime / "a.sock")

    with pytest.raises(AlreadyRunningError) as refused:
        SocketPath.claim(runtime / "a.sock")
    assert refused.value.pid == os.getpid()

    SocketPath.claim(runtime / "b.sock").release()
    claim.release()
    SocketPath.claim(runtime / "a.sock").release()


@pytest.mark.req("S-03")
def test_a_dead_socket_is_removed(runtime: Path) -> None:
    path = runtime / "a.sock"
    listening(path).close()
    assert path.is_socket()

    claim = SocketPath.claim(path)

    assert not path.exists()
    claim.release()


@pytest.mark.req("S-03", "I44")
def test_a_live_socket_of_a_server_without_lock_is_left_alone(runtime: Path) -> None:
    path = runtime / "a.sock"
    with listening(path):
        with pytest.raises(AlreadyRunningError) as refused:
            SocketPath.claim(path)
        assert refused.value.pid == os.getpid()
        assert path.is_socket()

    SocketPath.claim(path).release()


def test_a_full_backlog_counts_as_alive(runtime: Path) -> None:
    path = runtime / "a.sock"
    waiting = []
    with listening(path) as server:
        server.listen(0)
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            waiting.append(client)
            if client.connect_ex(os.fspath(path)) != 0:
                break
        with pytest.raises(AlreadyRunningError) as refused:
            SocketPath.claim(path)
        for client in waiting:
            client.close()

    assert refused.value.pid is None
    assert path.is_socket()


def test_whatever_else_lies_at_the_path_is_refused_and_kept(runtime: Path) -> None:
    file = runtime / "file"
    file.write_text("mine")
    link = runtime / "link"
    link.symlink_to(runtime / "nowhere")

    with pytest.raises(UnsafePathError, match="exists and is not a socket"):
        SocketPath.claim(file)
    with pytest.raises(UnsafePathError, match="is a symbolic link, not a socket"):
        SocketPath.claim(link)
    assert file.read_text() == "mine" and link.is_symlink()


@pytest.mark.req("S-01")
def test_a_directory_that_others_may_write_to_is_refused(runtime: Path) -> None:
    runtime.chmod(0o777)

    with pytest.raises(UnsafePathError, match="may be written to by other users"):
        SocketPath.claim(runtime / "a.sock")
    assert list(runtime.iterdir()) == []


def test_a_directory_that_others_may_read_is_used_as_it_is(runtime: Path) -> None:
    runtime.chmod(0o755)

    SocketPath.claim(runtime / "a.sock").release()

    assert stat.S_IMODE(runtime.stat().st_mode) == 0o755


@pytest.mark.req("S-03")
def test_a_socket_that_is_no_longer_ours_is_not_removed(runtime: Path) -> None:
    claim = SocketPath.claim(runtime / "a.sock")
    with claim.binding():
        ours = listening(claim.path)
    # Keeps the first inode in use, else the file system may give its number to the newcomer.
    os.link(claim.path, runtime / "kept")
    claim.path.unlink()

    with ours, listening(claim.path):
        claim.release()
        assert claim.path.is_socket()


def test_release_is_fine_with_a_socket_that_went_away(runtime: Path) -> None:
    claim = SocketPath.claim(runtime / "a.sock")
    with claim.binding(), listening(claim.path):
        pass
    claim.path.unlink()

    claim.release()
    claim.release()
