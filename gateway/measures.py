"""What the gateway counts and times; `gateway.metrics` shows it."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY: Final = CollectorRegistry()
CALLS: Final = Counter(
    "aios_gateway_calls",
    "Calls of the AIOS wire by method and code; code 0 is success.",
    ("method", "code"),
    registry=REGISTRY,
)
CALL_SECONDS: Final = Histogram(
    "aios_gateway_call_seconds",
    "How long calls of the AIOS wire took.",
    ("method",),
    registry=REGISTRY,
)
STREAMS: Final = Gauge(
    "aios_gateway_streams", "Streams of events that are open.", registry=REGISTRY
)
