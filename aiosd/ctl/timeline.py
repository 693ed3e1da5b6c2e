"""Events as a person reads them: one line each, a moving bar on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from aiosd.ctl import output
from aiosd.ctl.plain import field_word, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.progress import Progress, TaskID

    from aiosd.api.v1 import event_pb2


class Display(Protocol):
    """Shows events while a task is followed."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, event: event_pb2.Event) -> None:
        """Take the next event."""


class Lines:
    """Every event as a line on stderr; for pipes, files and journals."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *problem: object) -> None:
        return

    def show(self, event: event_pb2.Event) -> None:
        """Write the line of an event."""
        output.Output().note(line(event))


class Bar:
    """A bar for progress on a terminal, and the other events as lines above it."""

    def __init__(self, title: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress: Progress = Progress(
            TextColumn("{task.fields[title]}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=output.progress_console(),
            transient=True,
        )
        self._bar: TaskID = self._progress.add_task("", total=100, title=title)

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._progress.stop()

    def show(self, event: event_pb2.Event) -> None:
        """Move the bar, or write a line above it."""
        if event.WhichOneof("payload") == "progressed":
            report = event.progressed
            message = output.clean(report.message)
            self._progress.update(self._bar, completed=report.percent, description=message)
        else:
            self._progress.console.print(output.clean(line(event)))


def display(title: str) -> Display:
    """A bar when stderr is a terminal, lines otherwise."""
    return Bar(title) if output.colored(sys.stderr) else Lines()


def line(event: event_pb2.Event) -> str:
    """One event: when, what, and the words that say it."""
    kind = event.WhichOneof("payload") or "unknown"
    words = _WORDS[kind](getattr(event, kind)) if kind in _WORDS else ""
    return f"{timestamp(event.time)}  {_NAMES.get(kind, kind):<8}  {words}".rstrip()


def _status(change: Any) -> str:
    text = field_word(change, "state")
    return f"{text} ({change.reason})" if change.reason else text


def _progress(report: Any) -> str:
    steps = f" [{report.current_step}/{report.total_steps}]" if report.total_steps else ""
    return f"{report.percent:g}%{steps} {report.message}"


def _artifact(change: Any) -> str:
    artifact = change.artifact
    text = f"{artifact.artifact_id} {artifact.name} {artifact.size_bytes} bytes"
    return f"{text}, complete" if change.last_chunk else text


def _asked(interruption: Any) -> str:
    if interruption.HasField("auth_request"):
        auth = interruption.auth_request
        words = [field_word(auth, "type"), auth.provider, auth.reason, auth.authorization_url]
        return " ".join(filter(None, words))
    options = ", ".join(option.id for option in interruption.options)
    return f"{interruption.prompt} [{options}]" if options else str(interruption.prompt)


def _message(message: Any) -> str:
    text = " ".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    return f"{field_word(message, 'role')} {field_word(message, 'status')}: {text}"


_NAMES = {
    "status_changed": "status",
    "progressed": "progress",
    "logged": "log",
    "artifact_changed": "artifact",
    "input_required": "asks",
    "auth_required": "needs",
    "result_stored": "result",
    "message_changed": "message",
    "attempt_changed": "attempt",
}
_WORDS: dict[str, Callable[[Any], str]] = {
    "status_changed": _status,
    "progressed": _progress,
    "logged": lambda entry: f"{field_word(entry, 'level')}: {entry.message}",
    "artifact_changed": _artifact,
    "input_required": _asked,
    "auth_required": _asked,
    "result_stored": lambda stored: str(stored.result),
    "failed": lambda failed: f"{failed.failure.message} ({failed.failure.reason})",
    "message_changed": _message,
    "attempt_changed": lambda change: f"{change.attempt} {change.change} {change.reason}",
    "resolved": lambda resolution: f"{resolution.outcome} by {resolution.by}",
}
