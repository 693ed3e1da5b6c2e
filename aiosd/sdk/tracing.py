"""OpenTelemetry, if the program has it; nothing otherwise."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # the SDK asks for grpcio and protobuf only
    _installed = False
else:
    _installed = True

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def attempt_span(
    capability_id: str, task_id: str, attempt: int, trace_parent: str
) -> AbstractContextManager[object]:
    """A span around one attempt, linked to the trace that created the task.

    A link and not a parent: hours may lie between the two, and nobody waits for a day-long trace.
    """
    if not _installed:
        return contextlib.nullcontext()
    carrier = {"traceparent": trace_parent}
    creator = trace.get_current_span(TraceContextTextMapPropagator().extract(carrier))
    context = creator.get_span_context()
    return trace.get_tracer("aiosd.sdk").start_as_current_span(
        f"process {capability_id}",
        kind=trace.SpanKind.CONSUMER,
        links=[trace.Link(context)] if context.is_valid else [],
        attributes={
            "aiosd.capability.id": capability_id,
            "aiosd.task.id": task_id,
            "aiosd.attempt": attempt,
        },
    )
