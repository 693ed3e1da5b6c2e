"""The anchored head of the audit chain: a file of mode 0600 beside the store, and the log."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import structlog

from aiosd.adapters.system.audit_files import read_anchor
from aiosd.domain.audit import Head, sign_head

if TYPE_CHECKING:
    from pathlib import Path

#: Every head goes to the file; to the log one in so many records, and the first of a run.
LOGGED_EVERY = 100

log = structlog.get_logger("aiosd.audit")


class AnchorFile:
    """The port Anchor on a file."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._key = key
        self._logged = 0

    async def read(self) -> Head | None:
        """The head that was anchored last."""
        return await asyncio.to_thread(read_anchor, self._path, self._key)

    async def write(self, head: Head) -> None:
        """Replace the file: after a crash it is the old one or the new one."""
        await asyncio.to_thread(self._write, head)
        if not self._logged or head.sequence - self._logged >= LOGGED_EVERY:
            self._logged = max(1, head.sequence)
            log.info("audit.anchored", sequence=head.sequence, hash=head.hash.hex())

    def _write(self, head: Head) -> None:
        text = json.dumps(
            {
                "sequence": head.sequence,
                "count": head.sequence,
                "hash": head.hash.hex(),
                "mac": sign_head(self._key, head),
            }
        )
        draft = self._path.with_name(f".{self._path.name}.draft")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{text}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(self._path)
