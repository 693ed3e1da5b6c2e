"""The approver's token is that of the daemon that is talked to, and nobody else is shown one."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from aiosd.ctl.discovery import Target, approver_token, find_token
from tests.support.aiosctl import Ran, run_aiosctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ctl.conftest import Aiosctl

pytestmark = pytest.mark.req("R123", "S-08")

ELSEWHERE = "aios_" + "e" * 43
UNREACHABLE = 69


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody whose settings are those of another stack."""
    state_dir = tmp_path / "other"
    state_dir.mkdir(mode=0o700)
    for name in ("token", "approver-token"):
        (state_dir / name).touch(mode=0o600)
        (state_dir / name).write_text(ELSEWHERE)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "AIOSD_STATE_DIR": str(state_dir),
        "AIOSD_SOCKET": str(tmp_path / "other.sock"),
    }


def waiting_task(aiosctl: Aiosctl) -> str:
    ran = aiosctl("run", "lab.script.high", "--detach", 'steps:=[{"sleep_ms":1}]')
    assert ran.code == 0, ran.err
    return ran.out.strip()


def there(aiosctl: Aiosctl, environ: dict[str, str], *words: str) -> Ran:
    """Talk to the daemon of the tests, in another stack's environment."""
    return run_aiosctl(environ, *words, "--socket", str(aiosctl.programs.socket))


def test_approvals_go_with_the_token_of_the_daemon_behind_the_socket(
    aiosctl: Aiosctl, elsewhere: dict[str, str]
) -> None:
    task_id = waiting_task(aiosctl)
    aiosctl("wait", task_id)
    found = there(aiosctl, elsewhere, "inbox", "-o", "json")
    assert task_id in found.out, found.err
    ran = there(aiosctl, elsewhere, "approve", task_id)
    assert ran.code == 0, ran.err
    assert aiosctl("wait", task_id).code == 0


def test_a_command_is_the_word_for_low_ones_on_another_socket_too(
    aiosctl: Aiosctl, elsewhere: dict[str, str]
) -> None:
    ran = there(aiosctl, elsewhere, "run", "lab.script.low", 'steps:=[{"sleep_ms":1}]')
    assert ran.code == 0, ran.err
    assert "allowed, low" in ran.err


def test_without_the_daemons_own_token_nothing_is_taken_from_elsewhere(
    aiosctl: Aiosctl, elsewhere: dict[str, str]
) -> None:
    task_id = waiting_task(aiosctl)
    own = aiosctl.programs.state_dir / "approver-token"
    hidden = own.rename(own.with_name("hidden"))
    try:
        ran = there(aiosctl, elsewhere, "approve", task_id)
        assert (ran.code, ran.out) == (2, "")
        assert "cannot read the approver's token of the daemon at unix:" in ran.err
        assert there(aiosctl, elsewhere, "inbox").code == 0  # as the owner
    finally:
        hidden.rename(own)
    assert aiosctl("deny", task_id).code == 0


def test_what_is_named_is_used(aiosctl: Aiosctl, elsewhere: dict[str, str], tmp_path: Path) -> None:
    wrong = there(aiosctl, elsewhere, "inbox", "--state-dir", str(tmp_path / "other"))
    assert (wrong.code, "UNAUTHENTICATED" in wrong.err) == (1, True), wrong.err
    own = str(aiosctl.programs.state_dir)
    right = there(aiosctl, elsewhere, "inbox", "--state-dir", own)
    assert right.code == 0, right.err


def test_info_tells_the_state_directory_to_the_owner_and_doctor_looks_there(
    aiosctl: Aiosctl, elsewhere: dict[str, str]
) -> None:
    own = str(aiosctl.programs.state_dir)
    assert there(aiosctl, elsewhere, "info", "-o", "json").json["state_dir"] == own
    checks = there(aiosctl, elsewhere, "doctor", "-o", "json").json
    (token_file,) = (one["finding"] for one in checks if one["check"] == "token file")
    assert token_file.startswith(own)
    made = aiosctl("token", "create", "--principal", "bob", "--scope", "task:read", "-o", "json")
    as_bob = elsewhere | {"AIOSD_TOKEN": made.json["token"]}
    assert "state_dir" not in there(aiosctl, as_bob, "info", "-o", "json").json


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[tuple[Path, bytearray]]:
    """Somebody else's program behind a socket, and what it was told."""
    path, heard = tmp_path / "stranger.sock", bytearray()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def listen() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    heard.extend(connection.recv(65_536))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield path, heard
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize("words", [("inbox",), ("approve", "task-1"), ("audit", "verify")])
def test_who_does_not_answer_like_a_daemon_is_shown_no_token(
    elsewhere: dict[str, str], stranger: tuple[Path, bytearray], words: tuple[str, ...]
) -> None:
    path, heard = stranger
    ran = run_aiosctl(elsewhere, *words, "--socket", str(path))
    assert ran.code == UNREACHABLE, ran.err
    assert heard
    assert ELSEWHERE.encode() not in heard


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give files away")
def test_a_token_is_not_shown_to_the_socket_of_another_user(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    (tmp_path / "approver-token").write_text(ELSEWHERE)
    path.touch()
    assert approver_token(tmp_path, f"unix:{path}") == ELSEWHERE
    os.chown(path, 65_534, -1)
    assert approver_token(tmp_path, f"unix:{path}") == ""


def test_the_owners_token_leaves_the_machine_only_when_its_directory_is_named(
    elsewhere: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AIOSD_TOKEN", "AIOSD_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in elsewhere.items():
        monkeypatch.setenv(name, value)
    assert find_token(Target(), "unix:/somewhere") == ""
    for near in ("127.0.0.1:9", "localhost:9", "[::1]:9", "http://127.0.0.1:9527"):
        assert find_token(Target(), near) == ELSEWHERE
    for far in ("192.0.2.1:9", "daemon.example:9", "https://daemon.example", "127.0.0.1.example:9"):
        assert find_token(Target(), far) == ""
        assert find_token(Target(state_dir=str(tmp_path / "other")), far) == ELSEWHERE
