"""Find, stop, continue and kill all descendants of a process, wherever they have gone.

A process cannot leave its tree: new sessions and process groups change nothing, and when a parent
dies, its children fall to the nearest ancestor that adopts orphans (`process_keeper`). So the
chain of parents in /proc is the truth here, and process groups are not. Linux only, standard
library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
DEAD = frozenset("ZX")
STOPPED = frozenset("Tt")
PAUSE_S = 0.002


class Process(NamedTuple):
    """One line of /proc/PID/stat, as far as it matters here."""

    pid: int
    state: str
    """R running, S sleeping, D waiting for a disk, T stopped, Z ended and not yet reaped."""
    parent: int


def descendants(root: int) -> list[Process]:
    """All processes below `root`, parents before children; `root` itself is not one of them.

    A snapshot: a process may fork while it is taken. `stop` and `kill` repeat it for that reason.
    """
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.pid for process in below]
    return found


def stop(root: int, deadline_s: float = 2.0) -> bool:
    """SIGSTOP everything below `root` and wait until all of it stands still.

    False if something does not stop before the deadline: a process in an uninterruptible wait for
    a device stops as soon as that wait ends.
    """
    return _until_all(root, signal.SIGSTOP, DEAD | STOPPED, deadline_s)


def proceed(root: int) -> None:
    """SIGCONT everything below `root`, children first, so that no parent sees a stopped child."""
    for process in reversed(descendants(root)):
        send(process.pid, signal.SIGCONT)


def terminate(root: int) -> None:
    """Ask everything below `root` to end: SIGTERM, then SIGCONT for what stands still."""
    for process in descendants(root):
        send(process.pid, signal.SIGTERM)
    proceed(root)


def kill(root: int, deadline_s: float = 5.0) -> bool:
    """SIGKILL everything below `root` until nothing of it is alive; True if so.

    Stopped first, so that a tree that forks faster than it is read cannot run away.
    """
    stop(root, min(deadline_s, 0.5))
    return _until_all(root, signal.SIGKILL, DEAD, deadline_s)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _until_all(
    root: int, number: signal.Signals, wanted: frozenset[str], deadline_s: float
) -> bool:
    end = time.monotonic() + deadline_s
    while True:
        rest = [process for process in descendants(root) if process.state not in wanted]
        if not rest:
            return True
        for process in rest:
            send(process.pid, number)
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE_S)


def _all() -> list[Process]:
    processes = []
    for directory in PROC.iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                processes.append(read(int(directory.name)))
    return processes


def read(pid: int) -> Process:
    """One process as it is now. Raises FileNotFoundError when there is none."""
    # The name stands in brackets and may hold anything, brackets and spaces too.
    fields = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return Process(pid, fields[0], int(fields[1]))
