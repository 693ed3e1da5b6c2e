"""A daemon and the lab as real processes, and `aiosctl` on them; shared by a module's tests."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.aiosctl import Ran, run_aiosctl
from tests.support.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Iterator


class Aiosctl:
    """Runs the command with an environment that knows nothing of the machine."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs

    def __call__(self, *arguments: str, stdin: str = "") -> Ran:
        return run_aiosctl(self.programs.environ, *arguments, stdin=stdin)

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
