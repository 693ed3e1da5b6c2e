"""OpenTelemetry spans around calls, and the creator's trace context for its tasks.

Without a configured exporter nothing is recorded and nothing is paid for.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Tracing:
    """`tracer` None: trace contexts are passed on, spans are not made."""

    def __init__(self, tracer: Any = None) -> None:
        self._tracer = tracer

    def accept(self, metadata: Mapping[str, str]) -> str:
        """The caller's traceparent if it is well-formed, else empty."""
        given = metadata.get("traceparent", "")
        return given if _TRACEPARENT.fullmatch(given) else ""

    def span(self, method: str) -> AbstractContextManager[object]:
        """A SERVER span named for the method, child of the caller's."""
        if self._tracer is None:
            return nullcontext()
        return self._span(method)

    @contextmanager
    def _span(self, method: str) -> Iterator[object]:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        from aiosd.adapters.rpc.calls import trace_parent

        propagator = TraceContextTextMapPropagator()
        parent = propagator.extract({"traceparent": trace_parent.get()})
        service, _, name = method.rpartition(".")
        with self._tracer.start_as_current_span(
            f"{service}/{name}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes={"rpc.system.name": "grpc", "rpc.method": f"{service}/{name}"},
        ) as span:
            carrier: dict[str, str] = {}
            propagator.inject(carrier)
            trace_parent.set(carrier.get("traceparent", trace_parent.get()))
            yield span


def exporting(endpoint: str, version: str) -> Tracing:
    """Tracing to an OTLP endpoint (gRPC); a Tracing without spans for an empty endpoint."""
    if not endpoint:
        return Tracing()
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "aiosd", "service.version": version})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return Tracing(provider.get_tracer("aiosd.rpc"))
