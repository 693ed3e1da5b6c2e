"""Secrets at rest: AES-256-GCM with a key file that is not in the store (S-28)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aiosd.adapters.system.credentials import handed_key, open_key
from aiosd.application.trust_ports import SecretUnreadable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NONCE_BYTES = 12


def vault_key_path(state_dir: Path) -> Path:
    """Where the key is kept unless one is handed over; without it the secrets are unusable."""
    return state_dir / "secrets.key"


def open_vault_key(state_dir: Path, environ: Mapping[str, str]) -> bytes:
    """The key that the service manager hands over, else that of the file, which may be made.

    With a handed key the file is neither made nor read: whoever steals the whole state directory
    then opens nothing. Raises UnsafePathError.
    """
    path = vault_key_path(state_dir)
    return handed_key(path.name, environ) or open_key(path)


class KeyedVault:
    """The port Vault: a nonce of its own for each sealing, id and principal bound in."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, secret_id: str, principal: str, secret: bytes) -> bytes:
        """Nonce and ciphertext."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, _name(secret_id, principal))

    def open(self, secret_id: str, principal: str, sealed: bytes) -> bytes:
        """The secret; raises SecretUnreadable."""
        nonce, body = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, body, _name(secret_id, principal))
        except (InvalidTag, ValueError):
            raise SecretUnreadable(f"the secret {secret_id} cannot be opened") from None


def _name(secret_id: str, principal: str) -> bytes:
    return f"{len(secret_id)}:{secret_id}{principal}".encode()
