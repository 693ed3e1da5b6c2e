"""The state directory is private, has one owner, and its secrets are made once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aiosd.adapters.system.credentials import (
    open_credentials,
    open_key,
    read_or_create,
    read_secret,
)
from aiosd.adapters.system.directory import UnsafePathError
from aiosd.adapters.system.lock import AlreadyRunningError
from aiosd.adapters.system.state_dir import StateDir, create_reserve, release_reserve


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.req("S-01", "S-30")
def test_a_new_state_directory_is_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"

    with StateDir.open(path):
        assert mode(path) == 0o700
        assert mode(path / "lock") == 0o600
        assert (path / "lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.req("S-30")
def test_a_state_directory_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(0o755)

    with StateDir.open(path):
        assert mode(path) == 0o700


@pytest.mark.req("S-01")
def test_an_unsafe_state_directory_is_refused_and_not_touched(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(real)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    file = tmp_path / "file"
    file.touch()

    for path, said in [
        (link, "is a symbolic link"),
        (shared, "may be written to by other users (mode 0777)"),
        (file, "is not a directory"),
        (file / "below", "cannot create the directory"),
    ]:
        with pytest.raises(UnsafePathError, match=str(path)) as refused:
            StateDir.open(path)
        assert said in str(refused.value)
    assert list(real.iterdir()) == list(shared.iterdir()) == []
    assert mode(shared) == 0o777


@pytest.mark.req("S-01")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)

    with pytest.raises(UnsafePathError, match="belongs to uid 65534"):
        StateDir.open(path)


@pytest.mark.req("S-03", "I44")
def test_a_second_owner_learns_the_pid_of_the_first(tmp_path: Path) -> None:
    with StateDir.open(tmp_path / "s"):
        with pytest.raises(AlreadyRunningError) as refused:
            StateDir.open(tmp_path / "s")
        assert refused.value.pid == os.getpid()
        assert str(refused.value).endswith(f"is in use by process {os.getpid()}")

    StateDir.open(tmp_path / "s").close()


@pytest.mark.req("S-03", "I44")
def test_the_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, time\n"
        "from aiosd.adapters.system.state_dir import StateDir\n"
        "held = StateDir.open(pathlib.Path(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunningError) as refused:
            StateDir.open(tmp_path / "s")
        owner.kill()

    assert refused.value.pid == owner.pid
    StateDir.open(tmp_path / "s").close()


@pytest.mark.req("S-03")
def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    tmp_path.chmod(0o700)

    with pytest.raises(OSError, match="symbolic links"):
        StateDir.open(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.req("S-30")
def test_a_hardened_process_makes_private_files_and_no_core(tmp_path: Path) -> None:
    script = (
        "import ctypes, os, pathlib, resource, sys\n"
        "from aiosd.adapters.system.state_dir import harden_process\n"
        "os.umask(0); harden_process()\n"
        "path = pathlib.Path(sys.argv[1]); path.touch()\n"
        "print(oct(path.stat().st_mode & 0o777), resource.getrlimit(resource.RLIMIT_CORE)[0],"
        " ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "file")]

    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said == "0o600 0 0\n"


def test_the_reserve_takes_its_space_and_gives_it_back(tmp_path: Path) -> None:
    reserve = tmp_path / "reserve"

    assert create_reserve(reserve, 100_000)
    assert create_reserve(reserve, 100_000)
    assert reserve.stat().st_blocks * 512 >= 100_000 and mode(reserve) == 0o600

    assert release_reserve(reserve)
    assert not release_reserve(reserve)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a small file system")  # noqa: S108
def test_a_reserve_for_which_there_is_no_room_leaves_nothing_behind() -> None:
    shared_memory = Path("/dev/shm")  # noqa: S108
    free = os.statvfs(shared_memory)
    reserve = shared_memory / f"aiosd-reserve-{os.getpid()}"

    assert not create_reserve(reserve, (free.f_bavail + 1) * free.f_frsize * 2)

    assert not reserve.exists()


@pytest.mark.req("S-08", "S-30")
def test_both_tokens_are_made_once_and_are_private(tmp_path: Path) -> None:
    made = open_credentials(tmp_path)

    assert open_credentials(tmp_path) == made
    assert made.owner != made.approver
    assert (tmp_path / "token").read_text() == f"{made.owner}\n"
    assert (tmp_path / "approver-token").read_text() == f"{made.approver}\n"
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
    assert {path.name for path in tmp_path.iterdir()} == {"token", "approver-token"}


def test_of_two_creators_the_first_wins(tmp_path: Path) -> None:
    path = tmp_path / "token"

    def second() -> str:
        read_or_create(path, lambda: "first")
        return "second"

    assert read_or_create(path, second) == "first"
    assert [found.name for found in tmp_path.iterdir()] == ["token"]


@pytest.mark.req("S-28")
def test_a_key_has_256_bits_and_stays(tmp_path: Path) -> None:
    key = open_key(tmp_path / "key")

    assert len(key) == 32 and open_key(tmp_path / "key") == key


@pytest.mark.req("S-28")
def test_a_damaged_key_is_refused_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text("abcd\n")

    with pytest.raises(UnsafePathError, match="does not hold a key"):
        open_key(path)
    assert path.read_text() == "abcd\n"


@pytest.mark.req("S-30")
def test_an_unsafe_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    with pytest.raises(UnsafePathError, match="does not hold a secret"):
        read_secret(path)

    path.write_text("secret\n")
    path.chmod(0o640)
    with pytest.raises(UnsafePathError, match=r"open to other users \(mode 0640\)"):
        read_secret(path)

    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(UnsafePathError, match="cannot read the secret"):
        read_secret(link)
    with pytest.raises(UnsafePathError, match="not a regular file"):
        read_secret(tmp_path)
    assert read_secret(path) == "secret"
