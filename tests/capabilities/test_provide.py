"""The provider process: ready, drained, gone."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd.capabilities import process_run
from tests.capabilities.conftest import eventually, pids_of
from tests.sdk.reference_daemon import ReferenceDaemon, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Process = asyncio.subprocess.Process

PROGRAM = (
    "import asyncio, sys; from aiosd.capabilities.provide import provide; "
    "asyncio.run(provide(address=sys.argv[1], drain_grace_ms=int(sys.argv[2])))"
)


@pytest.fixture
async def provider(socket: Path, request: pytest.FixtureRequest) -> AsyncIterator[Process]:
    """A provider that was started before there is a daemon; it drains for 300 ms, or for what
    the test asks for."""
    grace_ms = str(getattr(request, "param", 300))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, f"unix:{socket}", grace_ms, stdout=asyncio.subprocess.PIPE
    )
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def ready(process: Process, daemon: ReferenceDaemon) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert json.loads(await process.stdout.readline()) == {"ready": True, "name": "system"}
    await daemon.until(lambda: daemon.hellos, "Hello")


async def test_it_waits_for_a_daemon_and_ends_in_order(provider: Process, socket: Path) -> None:
    async with running(ReferenceDaemon(socket)) as daemon:
        await ready(provider, daemon)
        provider.send_signal(signal.SIGTERM)
        assert await provider.wait() == 0
        await daemon.until(lambda: daemon.detached)
    assert daemon.detached == ["drained"]


@pytest.mark.parametrize("provider", [20_000], indirect=True)
async def test_what_ends_within_the_grace_is_reported(provider: Process, socket: Path) -> None:
    async with running(ReferenceDaemon(socket)) as daemon:
        await ready(provider, daemon)
        arguments = json.dumps({"argv": ["/bin/sh", "-c", "echo up; sleep 0.1"]})
        attempt = await daemon.begin(process_run.CAPABILITY_ID, arguments)
        await daemon.stored(attempt, "log")
        provider.send_signal(signal.SIGTERM)
        assert (await daemon.ended(attempt)).HasField("completed")
        assert await provider.wait() == 0


async def test_what_outlives_the_grace_is_stopped_for_good(provider: Process, socket: Path) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    script = f"trap '' TERM; : {marker}; while :; do sleep 0.2; done"
    async with running(ReferenceDaemon(socket)) as daemon:
        await ready(provider, daemon)
        await daemon.begin(
            process_run.CAPABILITY_ID, json.dumps({"argv": ["/bin/sh", "-c", script]})
        )
        await eventually(lambda: pids_of(marker))
        provider.send_signal(signal.SIGTERM)
        assert await provider.wait() == 0
        await eventually(lambda: not pids_of(marker))


async def test_a_provider_that_never_saw_a_daemon_ends_at_once(provider: Process) -> None:
    # The process must have its signal handlers before it can be asked.
    await eventually(lambda: _handles(provider.pid, signal.SIGTERM))
    provider.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        assert await provider.wait() == 0


def _handles(pid: int, number: signal.Signals) -> bool:

    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False
