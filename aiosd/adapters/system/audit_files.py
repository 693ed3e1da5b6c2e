"""The files of the audit beside the store: the key of the chain and its anchored head."""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING

from aiosd.adapters.system.credentials import read_secret
from aiosd.application.trust_ports import AnchorBroken
from aiosd.domain.audit import Head, sign_head

if TYPE_CHECKING:
    from pathlib import Path


def audit_key_path(state_dir: Path) -> Path:
    """Where the key of the chain is."""
    return state_dir / "audit.key"


def anchor_path(state_dir: Path) -> Path:
    """Where the head is anchored."""
    return state_dir / "audit.head"


def read_anchor(path: Path, key: bytes) -> Head | None:
    """The anchored head; None if there is none. Raises AnchorBroken for one that is not ours."""
    try:
        found = json.loads(read_secret(path))
        head = Head(int(found["sequence"]), bytes.fromhex(found["hash"]))
        mac = str(found["mac"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise AnchorBroken("the anchored head cannot be read") from None
    if not hmac.compare_digest(mac, sign_head(key, head)):
        raise AnchorBroken("the anchored head was not written by this daemon")
    return head
