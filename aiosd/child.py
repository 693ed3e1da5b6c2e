"""Runs a command that dies with its parent: `child.py PARENT_PID COMMAND [ARGUMENT...]`.

The supervisor starts this file, which ties itself to the supervisor and then becomes the command.
The kernel keeps the tie across exec, so that a child in any language is covered, and nothing has
to run between fork and exec in the supervisor, which would make a busy process fork for real
(S-37). Standard library only, and run with `-I -S`: it costs about 30 milliseconds a start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process (SIGKILL) when its parent ends, however it ends.

    Exits at once when the parent is gone already. Raises OSError when the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    if os.getppid() != parent_pid:
        raise SystemExit("the parent process is gone")


def main() -> None:
    """Become the command. Exits 127 when it cannot be run."""
    die_with_parent(int(sys.argv[1]))
    # Ctrl-C reaches the whole process group; the supervisor alone answers it, in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # This interpreter ignores it, and an ignored signal would stay so in the command.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    command = sys.argv[2:]
    try:
        os.execvp(command[0], command)  # noqa: S606 - argv comes from the supervisor, no shell
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        raise SystemExit(127) from None


if __name__ == "__main__":
    main()
