"""Log lines of the gateway on stderr: an event name and fields, as text or as JSON.

Libraries log through the same handler. No request body, header or token is ever a field.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

_STANDARD: Final = frozenset(
    vars(logging.makeLogRecord({})) | {"message": "", "asctime": "", "color_message": ""}
)


def configure(log_format: Literal["text", "json"], level: str) -> None:
    """Write the log lines of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json=log_format == "json"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # uvicorn tells its start and stop; ours are told by the process itself.
    logging.getLogger("uvicorn").setLevel(max(root.level, logging.WARNING))


class _Lines(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps(line, default=str)
        head = f"{line.pop('timestamp')} {line.pop('level'):<7} {line.pop('event')}"
        return " ".join([head, *(f"{name}={value}" for name, value in line.items())])
