"""What is known of the call that is being served; the guard sets it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiosd.application.access import Caller

#: Who calls; set for the time of a call.
caller: ContextVar[Caller] = ContextVar("caller")
#: W3C traceparent of the call; empty without one.
trace_parent: ContextVar[str] = ContextVar("trace_parent", default="")
