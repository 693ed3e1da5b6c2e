"""Secrets at rest: sealed to a name and an owner, useless without the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.adapters.system.anchor import AnchorFile
from aiosd.adapters.system.audit_files import read_anchor
from aiosd.adapters.system.vault import KeyedVault
from aiosd.application.trust_ports import AnchorBroken, SecretUnreadable
from aiosd.domain.audit import Head

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
