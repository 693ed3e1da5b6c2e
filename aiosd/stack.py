"""What `aiosd up` runs: the programs of the service as children of one command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from aiosd.supervisor import ChildSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiosd.supervisor import Line


def stack(environ: Mapping[str, str], *, lab: bool) -> list[ChildSpec]:
    """The children in order of their start; `environ` carries every setting."""
    python = sys.executable
    # What the service manager handed over is the daemon's.
    bare = {name: value for name, value in environ.items() if name != "CREDENTIALS_DIRECTORY"}
    aiosd = (python, "-m", "aiosd")
    children = [
        ChildSpec("daemon", (*aiosd, "serve"), environ),
        ChildSpec("gateway", (python, "-m", "gateway"), bare, pin=_pin),
        ChildSpec("provider", (*aiosd, "provide"), bare),
    ]
    if lab:
        children.append(ChildSpec("lab", (*aiosd, "provide", "--lab"), bare))
    return children


def _pin(line: Line) -> Mapping[str, str]:
    """A port that the kernel chose stays the gateway's over its restarts."""
    pinned = {}
    if isinstance(http := line.get("http"), str):
        pinned["AIOSD_HTTP"] = http.removeprefix("http://").removeprefix("https://")
    if isinstance(a2a := line.get("a2a_grpc"), str):
        pinned["AIOSD_A2A_GRPC"] = a2a
    return pinned
