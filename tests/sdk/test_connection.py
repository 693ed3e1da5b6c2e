"""Which daemon is meant, and what may be said to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from aiosd.sdk.connection import jittered, resolve

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AIOSD_ADDRESS",
        "AIOSD_SOCKET",
        "AIOSD_TOKEN_FILE",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)


def test_the_argument_comes_before_the_environment_and_that_before_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert resolve().target == "unix:/state/aiosd/run/aiosd.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert resolve().target == "unix:/run/user/7/aiosd/aiosd.sock"
    monkeypatch.setenv("AIOSD_SOCKET", "/s.sock")
    assert resolve().target == "unix:/s.sock"
    monkeypatch.setenv("AIOSD_ADDRESS", "localhost:9000")
    assert resolve().target == "localhost:9000"
    assert resolve("/explicit.sock").target == "unix:/explicit.sock"


@pytest.mark.parametrize("address", ["nonsense", "host:", "host:0", "host:99999", "http://h:80"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address: expected"):
        resolve(address)


@pytest.mark.req("S-04")
def test_a_socket_path_that_the_kernel_cannot_take_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="longer than 107 bytes"):
        resolve("unix:/" + "x" * 107)


def test_the_token_comes_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("aios_x\n")
    monkeypatch.setenv("AIOSD_TOKEN_FILE", str(file))
    assert resolve("/s").metadata() == (("authorization", "Bearer aios_x"),)
    assert resolve("/s", "").metadata() == ()
    monkeypatch.setenv("AIOSD_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="AIOSD_TOKEN_FILE: cannot read"):
        resolve("/s")


@pytest.mark.req("S-09")
def test_a_token_never_travels_in_the_clear_to_another_machine() -> None:
    with pytest.raises(ValueError, match="TLS"):
        resolve("example.org:443", "aios_x")
    for local in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/s"):
        assert resolve(local, "aios_x").token == "aios_x"
    secure = resolve("example.org:443", "aios_x", grpc.ssl_channel_credentials())
    assert secure.token == "aios_x"


def test_pauses_grow_to_a_bound_and_differ() -> None:
    assert all(0 < jittered(attempt) <= 2.0 for attempt in range(60))
    assert max(jittered(0) for _ in range(50)) <= 0.05
    assert len({jittered(9) for _ in range(20)}) > 1
