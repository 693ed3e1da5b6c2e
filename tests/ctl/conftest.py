"""A daemon and the lab as real processes, and `aiosctl` on them; shared by a module's tests."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.ctl import main
from tests.support.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class Aiosctl:
    """Runs the command with an environment that knows nothing of the machine."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs

    def __call__(self, *arguments: str, stdin: str = "") -> Ran:
        """Run it inside this process: the same code, without the start of an interpreter."""
        out, err = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "environ", self.programs.environ)
            patch.setattr(sys, "argv", ["aiosctl", *arguments])
            patch.setattr(sys, "stdin", StringIO(stdin))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = main()
        said = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]
        return Ran(code, *said)

    def start(self, *steps: dict[str, Any]) -> str:
        """A script that runs by itself; its task id."""
        ran = self("run", "lab.script", f"steps:={json.dumps(steps)}", "--detach")
        assert ran.code == 0, ran.err
        return ran.out.strip()


@pytest.fixture(scope="module")
def aiosctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aiosctl]:
    programs = Programs(tmp_path_factory.mktemp("ctl"), max_tasks_per_tool=10)
    with asyncio.Runner() as runner:
        try:
            runner.run(programs.daemon())
            runner.run(programs.lab())
            yield Aiosctl(programs)
        finally:
            runner.run(programs.aclose())
