"""Log lines on stderr: event names with fields, as text or JSON, without secrets (S-31)."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Literal, TextIO

import structlog
from opentelemetry import trace

from aiosd.adapters.system.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict, Processor, WrappedLogger

    _Render = Callable[[WrappedLogger, str, EventDict], str]

_SYSLOG = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}


def configure_logging(
    log_format: Literal["text", "json"] = "text",
    log_level: Literal["debug", "info", "warning", "error"] = "info",
    *,
    stream: TextIO | None = None,
    journal: bool = False,
) -> Redactor:
    """Set up structlog and the standard library's logging, which libraries use, for this process.

    Lines go to `stream` (default stderr). With `journal` each starts with the syslog priority in
    angle brackets that journald reads. Gives the redactor, where live secrets are registered.
    Tracebacks never show local variables.
    """
    redactor = Redactor()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _trace_context,
        structlog.processors.format_exc_info,
    ]
    render: _Render = _json_line if log_format == "json" else _text_line
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            redactor,
            _for_journal(render) if journal else render,
        ],
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(log_level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return redactor


def _trace_context(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Name the current trace, so that a line leads to its trace and back."""
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = f"{span.trace_id:032x}"
        event["span_id"] = f"{span.span_id:016x}"
    return event


def _text_line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    """`TIME level event key=value ...`, one line however odd the values; a traceback follows."""
    time = event.pop("timestamp", "")
    level = event.pop("level", "")
    name = event.pop("event", "")
    traceback = event.pop("exception", None)
    fields = [f"{key}={_quoted(value)}" for key, value in event.items()]
    line = " ".join([str(time), f"{level:<7}", _quoted(name, spaces=True), *fields])
    return line if traceback is None else f"{line}\n{traceback}"


def _quoted(value: object, *, spaces: bool = False) -> str:
    """A value as one word. Control characters are escaped: they could forge a line."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text.isprintable() and '"' not in text and (spaces or not {" ", "="} & set(text))
    return text if not isinstance(value, str) or (plain and text) else json.dumps(text)


def _json_line(logger: WrappedLogger, method: str, event: EventDict) -> str:
    return json.dumps(event, ensure_ascii=False, default=str)


def _for_journal(render: _Render) -> _Render:
    """Mark every line with its syslog priority (sd-daemon(3))."""

    def render_with_priority(logger: WrappedLogger, method: str, event: EventDict) -> str:
        prefix = f"<{_SYSLOG.get(event['level'], 6)}>"
        return "\n".join(prefix + part for part in render(logger, method, event).split("\n"))

    return render_with_priority
