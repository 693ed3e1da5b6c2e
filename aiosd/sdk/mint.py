"""A token from the mint socket of a daemon that serves many local users (S-05)."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

NAME = "mint.sock"
_EARLY_S = 60.0
_WAIT_S = 2.0
#: By path, inode and birth of the socket: a daemon that was started anew has another key.
_kept: dict[tuple[Path, int, int], tuple[float, str]] = {}


def local_token(target: str) -> str:
    """The bearer token of this user for a daemon's Unix socket; empty where none is needed."""
    if not target.startswith("unix:"):
        return ""
    path = Path(target.removeprefix("unix:")).with_name(NAME)
    try:
        found = path.stat()
    except OSError:
        return ""
    key = (path, found.st_ino, found.st_ctime_ns)
    until, token = _kept.get(key, (0.0, ""))
    if time.monotonic() < until:
        return token
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mint:
            mint.settimeout(_WAIT_S)
            mint.connect(os.fspath(path))
            said = json.loads(mint.makefile("rb").readline(4096))
            token, seconds = str(said["token"]), float(said["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    _kept[key] = (time.monotonic() + seconds - _EARLY_S, token)
    return token
