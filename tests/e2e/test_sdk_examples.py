"""The examples of the SDK, run as a reader would run them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd.sdk import connect, is_terminal

if TYPE_CHECKING:
    from tests.support.programs import Programs

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_client_example_follows_the_provider_example_to_its_end(
    programs: Programs,
) -> None:
    await programs.daemon()
    echo = await programs.start("echo", str(EXAMPLES / "provider_echo.py"))
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / "client_create_and_watch.py"),
        "hello",
        "3",
        env=programs.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(30):
        output, _ = await client.communicate()
    lines = output.decode().splitlines()
    assert client.returncode == 0, lines
    assert "result {'said': ['HELLO', 'HELLO', 'HELLO']}" in lines
    assert lines[-1] == "echo.txt 'HELLO\\nHELLO\\nHELLO\\n'"
    assert await echo.terminate() == 0


@pytest.mark.slow
async def test_a_killed_provider_example_goes_on_from_its_checkpoint(programs: Programs) -> None:
    await programs.daemon()
    echo = await programs.start("echo", str(EXAMPLES / "provider_echo.py"))
    async with connect(programs.address) as client:
        task = await client.create("echo.say", {"text": "x", "times": 150})
        async for event in client.subscribe(task.task_id):
            if event.HasField("progressed"):
                break
        await echo.kill()
        await programs.start("echo", str(EXAMPLES / "provider_echo.py"))
        async with asyncio.timeout(60):
            task = await client.wait(task.task_id)
    assert is_terminal(task)
    assert task.attempt == 2
    assert task.result.count('"x"') == 150
