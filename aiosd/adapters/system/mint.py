"""The mint socket: tells local users apart by what the kernel says of them (S-05, H21).

Whoever connects gets a bearer token for its uid, good for five minutes: the gRPC socket itself
cannot tell one user from another. The key lives in memory, so a token ends with the daemon.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import os
import secrets
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from aiosd.application.access import Caller

if TYPE_CHECKING:
    from collections.abc import Callable

LIFETIME_S: Final = 300
NAME: Final = "mint.sock"
#: What a local user's programs may do; only the owner provides and administers.
USER: Final = frozenset(
    {"task:create", "task:read", "task:control", "task:input", "webhook:manage"}
)
_VERSION: Final = "v1"
_PEER: Final = struct.Struct("3i")
_NOBODY: Final = 65_534


class Peer(NamedTuple):
    """Who the kernel says is on the other end; the pid is for people, not for decisions (S-06)."""

    pid: int
    uid: int
    gid: int


class Mint:
    """Makes tokens and knows its own."""

    def __init__(self, owner: Caller, *, now: Callable[[], float] = time.time) -> None:
        self._owner = owner
        self._now = now
        self._key = secrets.token_bytes(32)
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._unmapped = {_NOBODY, _overflow_uid(), -1}

    async def start(self, path: Path) -> None:
        """Listen on `path` for every local user; what was there is removed."""
        self._path = path
        self._server = await asyncio.start_unix_server(self._serve, sock=_bound(path))

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None and self._path is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    def issue(self, peer: Peer) -> str | None:
        """A token for a peer; None for one whose user is not known here."""
        if peer.uid in self._unmapped or peer.uid < 0 or peer.pid <= 0:
            return None
        nonce = secrets.token_urlsafe(12)
        body = f"{_VERSION}.{peer.uid}.{peer.gid}.{int(self._now()) + LIFETIME_S}.{nonce}"
        return f"{body}.{self._seal(body)}"

    async def caller(self, text: str) -> Caller | None:
        """Whose token this is; None for one that is not ours or is past its time."""
        body, _, given = text.rpartition(".")
        if not text.isascii() or not hmac.compare_digest(self._seal(body), given):
            return None
        _, uid, _, ends, _ = body.split(".")
        if self._now() >= int(ends):
            return None
        if int(uid) == os.geteuid():
            return self._owner
        return Caller(f"uid:{uid}", USER, f"mint:{uid}")

    def _seal(self, body: str) -> str:
        raw = hmac.digest(self._key, body.encode(), "sha256")
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    async def _serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        token = self.issue(peer_of(writer.get_extra_info("socket")))
        answer = {"error": "refused"} if token is None else {"token": token, "seconds": LIFETIME_S}
        with suppress(OSError):
            writer.write(json.dumps(answer).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), 1)
        writer.close()


def _bound(path: Path) -> socket.socket:
    """A socket that every local user may connect to, from its first moment."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o111)
    try:
        listening.bind(os.fspath(path))
    finally:
        os.umask(before)
    return listening


def peer_of(connection: socket.socket) -> Peer:
    """SO_PEERCRED."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return Peer(*_PEER.unpack(raw))


def _overflow_uid() -> int:
    """The uid that stands for users of another namespace."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return _NOBODY
