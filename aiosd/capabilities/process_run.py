"""`system.process.run`: one command of the operating system, without a shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aiosd.capabilities.output_capture import OutputCapture
from aiosd.capabilities.process_command import Command, Ending, NotStarted
from aiosd.sdk import TaskFailed, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiosd.sdk import Provider, TaskContext

CAPABILITY_ID = "system.process.run"
TOOL_ID = "system.process"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED_ON = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TZ", "USER"})
PASSED_ON_PREFIX = "LC_"
DEFAULT_OUTPUT_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_LOG_LINES = 10_000
READ_BYTES = 64 * 1024
GRACE_S = 2.0
INVALID_ARGUMENT = -32602

Level = Literal["info", "warn"]

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["argv"],
    "additionalProperties": False,
    "properties": {
        "argv": {
            "type": "array",
            "minItems": 1,
            "maxItems": 4096,
            "items": {"type": "string", "maxLength": 131_000, "pattern": "^[^\\u0000]*$"},
            "description": "program and arguments; the program is absolute or found on PATH",
        },
        "cwd": {
            "type": "string",
            "pattern": "^/[^\\u0000]*$",
            "description": "absolute directory; absent: an empty private one, removed afterwards",
        },
        "env": {
            "type": "object",
            "maxProperties": 256,
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "not": {"pattern": "^AIOSD_"}},
            "additionalProperties": {"type": "string", "pattern": "^[^\\u0000]*$"},
            "description": "variables to add to the cleared environment",
        },
        "stdin": {"type": "string", "description": "text to read; absent: /dev/null"},
        "output_limit_bytes": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_OUTPUT_BYTES,
            "default": DEFAULT_OUTPUT_BYTES,
            "description": "bytes of each stream that are kept for its artifact",
        },
    },
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["exit_code", "duration_ms"],
    "properties": {
        "exit_code": {"type": "integer"},
        "signal": {"type": "string"},
        "duration_ms": {"type": "integer", "minimum": 0},
    },
}


@dataclass(frozen=True, slots=True)
class Arguments:
    """What to run; INPUT_SCHEMA says what each member means."""

    argv: list[str]
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    stdin: str | None = None
    output_limit_bytes: int = DEFAULT_OUTPUT_BYTES


def register(provider: Provider) -> None:
    """Offer the capability."""
    provider.capability(
        CAPABILITY_ID,
        name="Run a command",
        description="Runs one program with its arguments, without a shell.",
        level="high",
        tool_id=TOOL_ID,
        pausable=True,
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
        tags=("system", "process"),
    )(run)


async def run(task: TaskContext, arguments: Arguments) -> dict[str, Any]:
    """Run the command to its end; its lines become log events, its output artifacts.

    An exit code other than 0 fails the task with reason `exit_code` or `signal`, after the
    artifacts are stored. Paused, the whole tree of the command stands still; cancelled, all of it
    is asked to end and killed after a grace.
    """
    environment = child_environment(arguments.env)
    program = find_program(arguments.argv[0], environment["PATH"])
    with working_directory(arguments.cwd) as cwd:
        started = time.monotonic()
        command = await Command.start(
            program,
            arguments.argv,
            cwd=cwd,
            environment=environment,
            with_stdin=arguments.stdin is not None,
        )
        try:
            ending = await _follow(task, command, arguments)
        except NotStarted as problem:
            raise invalid("argv[0]", f"cannot execute {program}: {problem.strerror}") from None
        except BaseException:
            await command.end(GRACE_S)
            raise
    return _result(ending, int((time.monotonic() - started) * 1000))


async def _follow(task: TaskContext, command: Command, arguments: Arguments) -> Ending:
    """Feed the command, log and keep what it writes, and wait for its end."""
    task.on_pause(lambda: asyncio.to_thread(command.stop))
    task.on_resume(lambda: asyncio.to_thread(command.proceed))
    out = OutputCapture(arguments.output_limit_bytes)
    err = OutputCapture(arguments.output_limit_bytes)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_log(task, command.stdout, out, "info"))
            group.create_task(_log(task, command.stderr, err, "warn"))
            group.create_task(_write(command, arguments.stdin))
            ending = group.create_task(command.wait())
    except* NotStarted as problems:
        raise problems.exceptions[0] from None
    await _store(task, "stdout", out)
    await _store(task, "stderr", err)
    return ending.result()


async def _log(
    task: TaskContext, stream: asyncio.StreamReader, capture: OutputCapture, level: Level
) -> None:
    logged = 0
    ended = False
    while not ended:
        data = await stream.read(READ_BYTES)
        ended = not data
        for line in capture.finish() if ended else capture.feed(data):
            # What was written before a pause is told after it.
            await task.checkpoint()
            logged += 1
            if logged <= MAX_LOG_LINES:
                await task.log(line, level=level)
            elif logged == MAX_LOG_LINES + 1:
                await task.log(f"more than {MAX_LOG_LINES} lines: see the artifact", level="warn")


async def _write(command: Command, text: str | None) -> None:
    if text is None or command.stdin is None:
        return
    # A command that does not read its input is no failure.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        command.stdin.write(text.encode())
        await command.stdin.drain()
    command.stdin.close()


async def _store(task: TaskContext, name: str, capture: OutputCapture) -> None:
    """Store what the command wrote; nothing for a silent stream."""
    parts = capture.text_parts()
    if parts:
        async with task.open_artifact(name, type="log", mime_type="text/plain") as artifact:
            for part in parts:
                await artifact.write(Text(part))


def _result(ending: Ending, duration_ms: int) -> dict[str, Any]:
    result: dict[str, Any] = {"exit_code": ending.exit_code, "duration_ms": duration_ms}
    if ending.signal is not None:
        result["signal"] = signal_name(ending.signal)
        raise TaskFailed(
            f"the command was ended by {result['signal']}", reason="signal", data=result
        )
    if ending.exit_code != 0:
        raise TaskFailed(
            f"the command ended with exit code {ending.exit_code}", reason="exit_code", data=result
        )
    return result


def child_environment(added: dict[str, str]) -> dict[str, str]:
    """The cleared environment of a command: a few of our variables, and those asked for."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIX)
    }
    return {"PATH": DEFAULT_PATH} | ours | added


def find_program(name: str, path: str) -> str:
    """The absolute path of a program. Raises TaskFailed, naming argv[0], unless it is one."""
    if "/" not in name:
        found = shutil.which(name, path=path)
        if found is None or not found.startswith("/"):
            raise invalid("argv[0]", f"no program {name!r} on PATH")
        return found
    if not name.startswith("/"):
        raise invalid("argv[0]", f"{name!r} must be absolute or a name without slashes")
    try:
        regular = stat.S_ISREG(Path(name).stat().st_mode)
    except OSError as problem:
        raise invalid("argv[0]", f"{name}: {problem.strerror}") from None
    if not regular or not os.access(name, os.X_OK):
        raise invalid("argv[0]", f"{name} is not an executable file")
    return name


@contextlib.contextmanager
def working_directory(asked: str | None) -> Iterator[str]:
    """The directory to run in: the one asked for, or a private one that is removed afterwards."""
    if asked is None:
        with tempfile.TemporaryDirectory(prefix="aiosd-run-", ignore_cleanup_errors=True) as made:
            yield made
    elif Path(asked).is_dir():
        yield asked
    else:
        raise invalid("cwd", f"{asked} is not a directory")


def invalid(argument: str, problem: str) -> TaskFailed:
    """The failure of a task whose argument cannot be used."""
    return TaskFailed(
        f"{argument}: {problem}",
        code=INVALID_ARGUMENT,
        reason="argument_invalid",
        data={"field": argument},
    )


def signal_name(number: int) -> str:
    """SIGKILL for 9; `signal 35` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
