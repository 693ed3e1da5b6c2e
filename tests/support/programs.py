"""The programs of the service as real processes that a test starts, kills and starts again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.support.approving import approve

if TYPE_CHECKING:
    from pathlib import Path

READY_WITHIN_S = 60.0


class Program:
    """One running program; its stderr goes to a file of its own."""

    def __init__(self, process: asyncio.subprocess.Process, ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready

    @property
    def pid(self) -> int:
        return self.process.pid

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def terminate(self, within_s: float = 15.0) -> int:
        """SIGTERM; its exit code. A program that does not end in time is killed and that fails."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(within_s):
                return await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise AssertionError(f"did not end within {within_s} s of SIGTERM") from None

    def stop(self) -> None:
        """SIGSTOP: frozen."""
        self.process.send_signal(signal.SIGSTOP)

    def cont(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)


class Programs:
    """Programs on one state directory; `settings` are AIOSD_ settings by lower-case name."""

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        self.state_dir = home / "state"
        self.socket = home / "run" / "aiosd.sock"
        self.address = f"unix:{self.socket}"
        self._settings = settings
        self._started: list[Program] = []

    @property
    def environ(self) -> dict[str, str]:
        names = {f"AIOSD_{name.upper()}": _text(value) for name, value in self._settings.items()}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "AIOSD_STATE_DIR": str(self.state_dir),
            "AIOSD_SOCKET": str(self.socket),
            "AIOSD_HTTP": "127.0.0.1:0",
            "AIOSD_A2A_GRPC": "127.0.0.1:0",
            **names,
        }

    async def daemon(self) -> Program:
        return await self.start("daemon", "-m", "aiosd", "serve")

    async def provider(self) -> Program:
        return await self.start("provider", "-m", "aiosd", "provide")

    async def lab(self) -> Program:
        return await self.start("lab", "-m", "aiosd", "provide", "--lab")

    async def gateway(self) -> Program:
        return await self.start("gateway", "-m", "gateway")

    async def start(self, name: str, *arguments: str) -> Program:
        """Start a Python program and wait for its readiness line."""
        with (self.home / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                env=self.environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = await process.stdout.readline()
        except TimeoutError:
            process.kill()
            raise AssertionError(f"{name} was not ready; {self.log(name)}") from None
        if not line:
            await process.wait()
            raise AssertionError(f"{name} ended with {process.returncode}; {self.log(name)}")
        program = Program(process, json.loads(line))
        self._started.append(program)
        return program

    async def approve(self, task_id: str) -> None:
        """Allow what a task asks for, as the person whose token is in the state directory."""
        await approve(self.address, self.state_dir, task_id)

    def log(self, name: str) -> str:
        """The last words of a program's stderr."""
        return (self.home / f"{name}.log").read_text(errors="replace")[-4000:]

    async def aclose(self) -> None:
        """Kill whatever still runs."""
        for program in self._started:
            if program.process.returncode is None:
                program.process.send_signal(signal.SIGCONT)
                await program.kill()


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
