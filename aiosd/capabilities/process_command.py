"""A command that runs under a keeper: start it, stand it still, let it go on, end all of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiosd.capabilities import process_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IMPORT_ROOT = Path(__file__).resolve().parent.parent.parent
BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from aiosd.capabilities.process_keeper import main; main(sys.argv[1:])"
)
STATUS_BYTES = 4096


class NotStarted(OSError):
    """The program could not be executed; `errno` says why."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: by its exit code, or by a signal."""

    exit_code: int
    """As a shell says it: 128 + the signal's number when a signal ended it."""
    signal: int | None = None


class Command:
    """A running command and everything that it started."""

    def __init__(self, keeper: subprocess.Process, control: int, status: int) -> None:
        self._keeper = keeper
        self._control: int | None = control
        self._status = status

    @classmethod
    async def start(
        cls,
        program: str,
        argv: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        with_stdin: bool = False,
    ) -> Command:
        """Start `program` (an absolute path) with `argv`, which has the program's name first.

        Its standard input is /dev/null unless `with_stdin`. Only arguments that keep vfork
        (reliability.md E20) are used here; the rest of the preparation is the keeper's.
        """
        control_read, control_write = os.pipe()
        status_read, status_write = os.pipe()
        try:
            keeper = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", "-c", BOOT, str(IMPORT_ROOT)),
                *(str(control_read), str(status_write), program, *argv),
                stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(environment),
                pass_fds=(control_read, status_write),
                start_new_session=True,
            )
        except BaseException:
            os.close(control_write)
            os.close(status_read)
            raise
        finally:
            os.close(control_read)
            os.close(status_write)
        return cls(keeper, control_write, status_read)

    @property
    def keeper_pid(self) -> int:
        """The root of the tree; the keeper itself is not part of the command."""
        return self._keeper.pid

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        """Where the command reads from; None without `with_stdin`."""
        return self._keeper.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        """What the command writes."""
        return _there(self._keeper.stdout)

    @property
    def stderr(self) -> asyncio.StreamReader:
        """What the command complains about."""
        return _there(self._keeper.stderr)

    def stop(self) -> bool:
        """Stand the whole tree still (SIGSTOP); True once all of it does."""
        return process_tree.stop(self._keeper.pid)

    def proceed(self) -> None:
        """Let the tree go on (SIGCONT)."""
        process_tree.proceed(self._keeper.pid)

    async def wait(self) -> Ending:
        """Wait until nothing of the command is left. Raises NotStarted if it never ran.

        What outlives the command itself is killed by the keeper. Read both streams meanwhile, or
        the command may wait for a reader for ever.
        """
        await self._keeper.wait()
        self._release()
        said = os.read(self._status, STATUS_BYTES) if self._status >= 0 else b""
        self._close_status()
        outcome: dict[str, int] = json.loads(said or b'{"signal":9}')
        if "error" in outcome:
            raise NotStarted(outcome["error"], os.strerror(outcome["error"]))
        if "signal" in outcome:
            return Ending(128 + outcome["signal"], outcome["signal"])
        return Ending(outcome["exit_code"])

    async def end(self, grace_s: float) -> None:
        """Ask the tree to end (SIGTERM), and kill what is left of it after the grace.

        Cancelled meanwhile, it kills at once. Nothing of the tree is alive when this returns.
        """
        if self._keeper.returncode is not None:
            self._release()
            self._close_status()
            return
        try:
            process_tree.terminate(self._keeper.pid)
            async with asyncio.timeout(grace_s):
                await self._keeper.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()
            self._close_status()
            await self._keeper.wait()

    def kill(self) -> None:
        """Kill the tree now, without waiting for the keeper to do it."""
        if self._keeper.returncode is None:
            process_tree.kill(self._keeper.pid)
        self._release()

    def _release(self) -> None:
        if self._control is not None:
            os.close(self._control)
            self._control = None

    def _close_status(self) -> None:
        if self._status >= 0:
            os.close(self._status)
            self._status = -1


def _there(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    if stream is None:
        raise RuntimeError("the command was started without this pipe")
    return stream
