"""What the exit code of `aiosctl` says."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiosd.api.v1 import task_pb2
    from aiosd.sdk import AiosdError

TIMEOUT_REASONS = frozenset({"timeout", "expired", "wait_expired", "deadline"})


class ExitCode(IntEnum):
    """One number for each way in which a task or a command can end."""

    COMPLETED = 0
    FAILED = 1
    USAGE = 2
    CANCELED = 3
    INPUT_REQUIRED = 4
    AUTH_REQUIRED = 5
    TIMEOUT = 6
    UNCERTAIN = 7
    UNREACHABLE = 69
    INTERRUPTED = 130


def of_task(task: task_pb2.Task) -> ExitCode:
    """The code of a task that was waited for; TIMEOUT for one that still runs."""
    from aiosd.api.v1 import task_pb2

    match task.state:
        case task_pb2.TASK_STATE_COMPLETED:
            return ExitCode.COMPLETED
        case task_pb2.TASK_STATE_CANCELED:
            return ExitCode.CANCELED
        case task_pb2.TASK_STATE_INPUT_REQUIRED:
            return ExitCode.INPUT_REQUIRED
        case task_pb2.TASK_STATE_AUTH_REQUIRED:
            return ExitCode.AUTH_REQUIRED
        case task_pb2.TASK_STATE_FAILED if task.failure.reason in TIMEOUT_REASONS:
            return ExitCode.TIMEOUT
        case task_pb2.TASK_STATE_FAILED if task.outcome == task_pb2.OUTCOME_UNCERTAIN:
            return ExitCode.UNCERTAIN
        case task_pb2.TASK_STATE_FAILED | task_pb2.TASK_STATE_REJECTED:
            return ExitCode.FAILED
        case _:
            return ExitCode.TIMEOUT


def of_error(error: AiosdError) -> ExitCode:
    """The code of a call that the daemon refused or that never reached it."""
    from aiosd.sdk import errors

    match error:
        case errors.Unavailable() if error.reason == "OUTCOME_UNKNOWN":
            return ExitCode.UNCERTAIN
        case errors.Unavailable():
            return ExitCode.UNREACHABLE
        case errors.InvalidArgument():
            return ExitCode.USAGE
        case errors.TimedOut():
            return ExitCode.TIMEOUT
        case _:
            return ExitCode.FAILED
