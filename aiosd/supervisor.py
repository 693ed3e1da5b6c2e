"""Runs the parts of the service as child processes of one foreground command (`aiosd up`).

Every child dies with this process, however it ends (`aiosd.child`), and stays in its process
group. A child that ends is started again, with back-off. Nothing but what design 2 says is
written on stdout: one readiness line, then one line for each restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

import aiosd
from aiosd.adapters.system.notify import Notifier

READINESS_FIELDS: Final = ("socket", "http", "a2a_grpc", "token_file", "approver_token_file")
"""What the readiness line takes over from the children's, the first child that has one winning."""

Line = Mapping[str, object]
log = structlog.get_logger(__name__)

_ENTRY = Path(__file__).with_name("child.py")
_SERVICE_MANAGER_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_MAX_LINE_BYTES = 1 << 20
_LAST_WORDS_S = 0.2


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One program to keep running."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    """Its whole environment."""
    ready: bool = True
    """Whether it says when it is ready: one JSON object on stdout with `"ready": true`."""
    pin: Callable[[Line], Mapping[str, str]] | None = None
    """Variables for later starts, from its readiness line: a port that was chosen stays so."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The supervisor's bounds, in seconds."""

    ready_s: float = 30.0
    """From start to readiness; a child that is late is killed."""
    stop_s: float = 10.0
    """From SIGTERM to SIGKILL, for each child."""
    first_delay_s: float = 0.1
    longest_delay_s: float = 10.0
    """Between an end and the next start: doubles from the first to the longest."""
    settled_s: float = 10.0
    """A child that lived this long starts with the first delay again."""


class StartFailedError(Exception):
    """A child ended, or was not ready in time, during the first start. All were stopped."""

    def __init__(self, name: str, returncode: int | None) -> None:
        how = "was not ready in time" if returncode is None else f"ended with code {returncode}"
        super().__init__(f"{name} {how} before everything was ready; its log above says why")
        self.name = name
        self.returncode = returncode
        """Its exit code, such as 75 when another daemon is running; None when it was too slow."""


class BackOff:
    """Delays between the ends and the next starts of one child."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._next_s = timing.first_delay_s

    def after(self, lived_s: float) -> float:
        """Seconds to wait after a life of this length."""
        if lived_s >= self._timing.settled_s:
            self._next_s = self._timing.first_delay_s
        delay_s = self._next_s
        self._next_s = min(delay_s * 2, self._timing.longest_delay_s)
        return delay_s


class Supervisor:
    """Starts the children, keeps them running, and stops them in reverse order.

    The first child is what the others need: it is ready before they are started. Runs in the main
    thread only, since the kernel ties children to the thread that made them.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        *,
        write: Callable[[Line], None] | None = None,
        timing: Timing | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._timing = timing or Timing()
        self._children = [_Child(spec, BackOff(self._timing)) for spec in specs]
        self._write = write or write_line
        self._notifier = notifier or Notifier()
        self._announced = False
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Run until SIGTERM, SIGINT, SIGHUP or `stop()`; a second one kills without grace.

        Raises StartFailedError when the first start does not succeed.
        """
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        failure: StartFailedError | None = None
        try:
            await self._run_until_stopped()
        except* StartFailedError as failures:
            failure = _first(failures)
        finally:
            self._notifier.stopping()
            for child in reversed(self._children):
                await self._end(child)
            for number in signals:
                loop.remove_signal_handler(number)
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Begin the stop; when called again, end it at once."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _run_until_stopped(self) -> None:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(self._serve())
            await self._stop.wait()
            serving.cancel()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(self._keep(child))
                if child is self._children[0]:
                    await child.ready.wait()
            while not all(child.ready.is_set() for child in self._children):
                for child in self._children:
                    await child.ready.wait()
            self._announce()
            group.create_task(self._feed_watchdog())

    async def _keep(self, child: _Child) -> None:
        """Start a child again whenever it ends."""
        loop = asyncio.get_running_loop()
        first_start = loop.time()
        while True:
            started = loop.time()
            returncode = await self._live(child)
            lived_s = loop.time() - started
            if not self._announced:
                # An exit is the child's own word that it cannot start; a signal is an accident.
                late = loop.time() - first_start >= self._timing.ready_s
                if returncode >= 0 or late:
                    raise StartFailedError(child.spec.name, None if late else returncode)
            delay_s = child.back_off.after(lived_s)
            log.warning(
                "child.ended",
                child=child.spec.name,
                pid=child.pid,
                returncode=returncode,
                lived_s=round(lived_s, 3),
                restart_in_s=delay_s,
            )
            await asyncio.sleep(delay_s)

    async def _live(self, child: _Child) -> int:
        """One life of a child, from its start to its end; gives its return code."""
        process = await child.start()
        late = asyncio.get_running_loop().call_later(self._timing.ready_s, child.kill_if_not_ready)
        if not child.spec.ready:
            self._is_ready(child, {})
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read(child, process))
                returncode = await process.wait()
                # Its last words; a grandchild that holds the pipe open must not delay us.
                await asyncio.wait({reader}, timeout=_LAST_WORDS_S)
                reader.cancel()
        finally:
            late.cancel()
            child.ready.clear()
        return returncode

    async def _read(self, child: _Child, process: asyncio.subprocess.Process) -> None:
        """Find the readiness line; whatever else a child says goes to stderr."""
        stdout = process.stdout
        if stdout is None:
            raise RuntimeError("the child's stdout is not a pipe")
        while True:
            try:
                line = await stdout.readline()
            except ValueError:  # longer than the limit; asyncio has dropped it
                continue
            if not line:
                return
            said = None if child.ready.is_set() else _readiness(line)
            if said is None:
                sys.stderr.write(line.decode("utf-8", "replace"))
            else:
                self._is_ready(child, said)

    def _is_ready(self, child: _Child, said: Line) -> None:
        child.is_ready(said)
        if self._announced:
            self._write({"restarted": child.spec.name, "pid": child.pid})

    def _announce(self) -> None:
        said: dict[str, object] = {}
        for child in reversed(self._children):
            said |= {key: value for key, value in child.said.items() if value is not None}
        self._write(
            {
                "ready": True,
                "version": aiosd.__version__,
                "pid": os.getpid(),
                "pids": {child.spec.name: child.pid for child in self._children},
            }
            | {key: said[key] for key in READINESS_FIELDS if key in said}
        )
        self._announced = True
        self._notifier.ready(f"running {', '.join(child.spec.name for child in self._children)}")

    async def _feed_watchdog(self) -> None:
        while self._notifier.watchdog_ms is not None:
            self._notifier.watchdog()
            await asyncio.sleep(self._notifier.watchdog_ms / 3000)

    async def _end(self, child: _Child) -> None:
        """SIGTERM, a time of grace, SIGKILL."""
        process = child.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        ended = asyncio.ensure_future(process.wait())
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait(
            {ended, hurry}, timeout=self._timing.stop_s, return_when=asyncio.FIRST_COMPLETED
        )
        hurry.cancel()
        if not ended.done():
            log.warning("child.killed", child=child.spec.name, pid=process.pid)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await ended


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    back_off: BackOff
    process: asyncio.subprocess.Process | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    said: Line = field(default_factory=dict)
    pinned: dict[str, str] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    async def start(self) -> asyncio.subprocess.Process:
        environ = {**self.spec.env, **self.pinned}
        for variable in _SERVICE_MANAGER_VARIABLES:
            environ.pop(variable, None)
        command = (sys.executable, "-I", "-S", str(_ENTRY), str(os.getpid()), *self.spec.argv)
        # Only arguments with which the standard library uses vfork: no preexec_fn, user or group.
        self.process = await asyncio.create_subprocess_exec(
            *command,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
        )
        return self.process

    def is_ready(self, said: Line) -> None:
        self.said = said
        if self.spec.pin is not None:
            self.pinned.update(self.spec.pin(said))
        self.ready.set()

    def kill_if_not_ready(self) -> None:
        if self.process is not None and not self.ready.is_set():
            log.error("child.not_ready", child=self.spec.name, pid=self.pid)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()


def write_line(line: Line) -> None:
    """Write one JSON line on stdout. A reader that went away is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def _first(failures: ExceptionGroup[StartFailedError]) -> StartFailedError:
    failure = failures.exceptions[0]
    return _first(failure) if isinstance(failure, ExceptionGroup) else failure


def _readiness(line: bytes) -> Line | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and said.get("ready") is True else None
