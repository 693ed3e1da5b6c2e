"""`aiosctl`, the command-line client. `docs/aiosctl.md` is its manual.

One module a group of commands; `aiosd.ctl.app` puts them together. Nothing heavy is imported
before a command runs, so that help and completion stay quick.
"""

from __future__ import annotations


def main() -> int:
    """Run `aiosctl` with the arguments of the process; returns the exit code."""
    from aiosd.ctl.app import app

    try:
        app(prog_name="aiosctl")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 0
