"""Secrets at rest: sealed to a name and an owner, useless without the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.adapters.system.anchor import AnchorFile
from aiosd.adapters.system.audit_files import read_anchor
from aiosd.adapters.system.directory import UnsafePathError
from aiosd.adapters.system.vault import KeyedVault, open_vault_key, vault_key_path
from aiosd.application.trust_ports import AnchorBroken, SecretUnreadable
from aiosd.domain.audit import Head
from aiosd.stack import stack

if TYPE_CHECKING:
    from pathlib import Path

VAULT = KeyedVault(b"k" * 32)
SEALED = VAULT.seal("webhook:1", "uid:1000", b"the secret")


@pytest.mark.req("S-28")
def test_a_secret_comes_back_and_is_not_to_be_seen_in_what_is_stored() -> None:
    assert VAULT.open("webhook:1", "uid:1000", SEALED) == b"the secret"
    assert b"secret" not in SEALED


@pytest.mark.req("S-28")
def test_the_same_secret_never_looks_the_same() -> None:
    assert VAULT.seal("webhook:1", "uid:1000", b"the secret") != SEALED


@pytest.mark.req("S-28")
@pytest.mark.parametrize(
    ("vault", "name", "principal", "sealed"),
    [
        (KeyedVault(b"x" * 32), "webhook:1", "uid:1000", SEALED),
        (VAULT, "webhook:2", "uid:1000", SEALED),
        (VAULT, "webhook:1", "uid:1001", SEALED),
        (VAULT, "webhook:1u", "id:1000", SEALED),
        (VAULT, "webhook:1", "uid:1000", SEALED[:-1] + bytes([SEALED[-1] ^ 1])),
        (VAULT, "webhook:1", "uid:1000", SEALED[:10]),
        (VAULT, "webhook:1", "uid:1000", b""),
    ],
    ids=["key", "id", "principal", "boundary", "changed", "cut", "empty"],
)
def test_under_another_key_or_name_or_changed_it_does_not_open(
    vault: KeyedVault, name: str, principal: str, sealed: bytes
) -> None:
    with pytest.raises(SecretUnreadable):
        vault.open(name, principal, sealed)


@pytest.mark.req("S-28")
def test_a_key_that_the_service_manager_hands_over_wins_and_no_file_is_made(
    tmp_path: Path,
) -> None:
    state_dir, handed = tmp_path / "state", tmp_path / "handed"
    state_dir.mkdir()
    handed.mkdir()
    environ = {"CREDENTIALS_DIRECTORY": str(handed)}
    (handed / "other").write_text("x")
    own = open_vault_key(state_dir, environ)
    assert vault_key_path(state_dir).read_text().strip() == own.hex()
    # systemd makes it readable for its group, with owners of its own choice.
    credential = handed / "secrets.key"
    credential.write_text("ab" * 32)
    credential.chmod(0o440)
    assert open_vault_key(state_dir, environ) == b"\xab" * 32
    vault_key_path(state_dir).unlink()
    assert open_vault_key(state_dir, environ) == b"\xab" * 32
    assert not vault_key_path(state_dir).exists()
    sealed = KeyedVault(b"\xab" * 32).seal("webhook:1", "uid:1000", b"x")
    with pytest.raises(SecretUnreadable):  # of a state directory that was stolen, say
        KeyedVault(open_vault_key(state_dir, {})).open("webhook:1", "uid:1000", sealed)


@pytest.mark.req("S-28")
@pytest.mark.parametrize("content", ["", "abcd", "zz" * 32, "ab" * 33])
def test_a_credential_that_is_no_key_is_refused_and_nothing_takes_its_place(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "secrets.key").write_text(content)
    with pytest.raises(UnsafePathError, match="does not hold a key"):
        open_vault_key(tmp_path / "state", {"CREDENTIALS_DIRECTORY": str(tmp_path)})


@pytest.mark.req("S-28")
def test_a_credential_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets.key").mkdir()
    with pytest.raises(UnsafePathError, match="cannot read the credential"):
        open_vault_key(tmp_path, {"CREDENTIALS_DIRECTORY": str(tmp_path)})


@pytest.mark.req("S-28", "S-36")
def test_only_the_daemon_gets_the_credentials() -> None:
    environ = {"CREDENTIALS_DIRECTORY": "/run/credentials/aiosd.service", "HOME": "/"}
    children = {one.name: dict(one.env) for one in stack(environ, lab=True)}
    assert children.pop("daemon") == environ
    assert set(children) == {"gateway", "provider", "lab"}
    assert all(env == {"HOME": "/"} for env in children.values())


@pytest.mark.req("S-33", "S-30")
async def test_an_anchored_head_is_read_back_and_only_with_the_key(tmp_path: Path) -> None:
    path = tmp_path / "audit.head"
    anchor = AnchorFile(path, b"k" * 32)
    assert await anchor.read() is None
    for head in (Head(1, b"a" * 32), Head(9, b"b" * 32)):
        await anchor.write(head)
        assert await anchor.read() == head
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(AnchorBroken):
        read_anchor(path, b"x" * 32)
    path.write_text(path.read_text().replace('"sequence": 9', '"sequence": 8'))
    with pytest.raises(AnchorBroken):
        await anchor.read()
