"""The client's side of a 504, against the service itself (R158)."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

from aiosd.sdk import http_invoke

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.stack import Stack


def _steps(path: Path) -> list[dict[str, object]]:
    return [{"touch": str(path)}, {"sleep_ms": 900}, {"complete": {"result": {"n": 1}}}]


@pytest.mark.req("R157", "R158")
async def test_a_wait_that_is_too_short_runs_the_task_once(stack: Stack, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    task = await http_invoke.invoke(
        stack.http,
        "lab.script",
        {"steps": _steps(touched)},
        token=stack.token,
        timeout_ms=100,
        patience_ms=20_000,
    )
    assert (task["status"], task["result"]) == ("completed", {"n": 1})
    assert len(touched.read_text().splitlines()) == 1


@pytest.mark.req("R158")
async def test_aiosctl_invoke_waits_after_a_504(stack: Stack, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiosd.ctl", "invoke", "lab.script"),
        *("--json", json.dumps({"steps": _steps(touched)}), "--http", stack.http),
        *("--timeout", "100ms", "--state-dir", str(stack.state_dir)),
        *("--socket", str(stack.socket), "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode == 0
    assert json.loads(out)["result"] == {"n": 1}
    assert len(touched.read_text().splitlines()) == 1
