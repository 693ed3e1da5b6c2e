"""The small process between a provider and a command: adopts its orphans, reaps them, ends it all.

Started as `python -I -S -c BOOT ROOT CONTROL STATUS PROGRAM ARGV...`, with two inherited file
descriptors. CONTROL is a pipe whose other end the provider holds: at its end of file (the provider
let go, or died) everything that the command started is killed. STATUS gets one JSON line:
`{"exit_code":n}` or `{"signal":n}` when the command ended, `{"error":errno}` when it could not be
started. The keeper ends when nothing of the command is left.

It exists because a process that serves gRPC must not fork to prepare a child (reliability.md E20,
S-37): it spawns this helper with vfork, and here, in one thread without gRPC, the preparations of
S-36 are safe. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys

from aiosd.capabilities import process_tree

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

# Python ignores these; a command must find them as a shell would leave them.
RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


def main(argv: list[str]) -> None:
    """Run a command to its end. `argv` is CONTROL STATUS PROGRAM ARGV..."""
    control, status = int(argv[0]), int(argv[1])
    os.set_inheritable(control, False)
    os.set_inheritable(status, False)
    _restrict()
    wakeup = _wake_on_child_signals()
    try:
        leader = os.posix_spawn(
            argv[2], argv[3:], os.environ, setsid=True, setsigdef=RESTORED_SIGNALS
        )
    except OSError as error:
        _tell(status, {"error": error.errno or 0})
        return
    _let_go_of_streams()
    outcome = _watch(leader, control, wakeup)
    process_tree.kill(os.getpid())
    _reap()
    _tell(status, outcome)


def _restrict() -> None:
    """Adopt orphans; let no set-uid program gain what we do not have; leave no core dumps."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for option in (PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS):
        if prctl(option, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wake_on_child_signals() -> int:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _let_go_of_streams() -> None:
    """Hold no end of the command's pipes, so that they close when the command closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def _watch(leader: int, control: int, wakeup: int) -> dict[str, int]:
    """Wait for the leader to end, or for the provider to let go; reap everything meanwhile."""
    while True:
        ready, _, _ = select.select([control, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
        if control in ready:
            process_tree.kill(os.getpid())
        ended = _reap()
        if leader in ended:
            code = os.waitstatus_to_exitcode(ended[leader])
            return {"exit_code": code} if code >= 0 else {"signal": -code}


def _reap() -> dict[int, int]:
    """Wait statuses of all children that have ended, by process id."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def _tell(status: int, outcome: dict[str, int]) -> None:
    os.write(status, json.dumps(outcome).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
