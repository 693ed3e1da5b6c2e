"""What every wire of the gateway is given."""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiosd.settings import Settings
from gateway.daemon_channel import Caller, DaemonChannel

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

_TRACE_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


@dataclass(slots=True)
class GatewayContext:
    """The daemon's channel, the settings, and the word that everything is to end.

    `stopping` is set when the process was asked to stop: streams end with a comment, and new
    requests are answered 503. `http` (`http://HOST:PORT`) and `a2a_grpc` (`HOST:PORT`) are where
    this process can be reached; each is empty until it listens there.
    """

    settings: Settings
    daemon: DaemonChannel
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    http: str = ""
    a2a_grpc: str = ""


def caller_of(request: HTTPConnection) -> Caller:
    """Who calls, as part of which trace; the guards have found the bearer token."""
    state = request.scope["state"]
    return Caller(
        bearer=state["bearer"] or "",
        trace_parent=trace_parent_of(request.headers.get("traceparent", "")),
        request_id=state["request_id"],
    )


def trace_parent_of(given: str) -> str:
    """The trace that the caller is part of, or a new one; our own span in either case."""
    if _TRACE_PARENT.fullmatch(given):
        trace_id, flags = given[3:35], given[-2:]
    else:
        trace_id, flags = secrets.token_hex(16), "01"
    return f"00-{trace_id}-{secrets.token_hex(8)}-{flags}"
