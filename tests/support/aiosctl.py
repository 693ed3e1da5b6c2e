"""`aiosctl` inside the test's process: the same code, without the start of an interpreter."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.ctl import main

if TYPE_CHECKING:
    from collections.abc import Mapping

# The standard streams and the environment belong to the process, so one run at a time.
_ALONE = threading.Lock()


@dataclass(frozen=True)
class Ran:
    """What one run of `aiosctl` said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The values of JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def run_aiosctl(environ: Mapping[str, str], *arguments: str, stdin: str = "") -> Ran:
    """Run it to its end; blocks, and needs a thread without an event loop."""
    out = TextIOWrapper(BytesIO(), "utf-8")
    err = TextIOWrapper(BytesIO(), "utf-8")
    with _ALONE, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", dict(environ))
        patch.setattr(sys, "argv", ["aiosctl", *arguments])
        patch.setattr(sys, "stdin", StringIO(stdin))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main()
    return Ran(code, _written(out), _written(err))


def _written(stream: TextIOWrapper[BytesIO]) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()
