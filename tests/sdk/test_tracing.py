"""OpenTelemetry where there is some, and nothing where there is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aiosd.sdk import Provider, TaskContext, tracing

if TYPE_CHECKING:
    import pytest

    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import ReferenceDaemon

CREATOR = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_an_attempt_is_a_consumer_span_that_is_linked_to_the_creator(
    daemon: ReferenceDaemon, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
    provider = Provider("p")

    @provider.capability("c")
    async def run(task: TaskContext, args: dict[str, Any]) -> str:
        return task.trace_parent

    async with attach(provider):
        attempt = await daemon.begin("c", trace_parent=CREATOR)
        await daemon.ended(attempt)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("process c", trace.SpanKind.CONSUMER)
    assert span.parent is None
    assert format(span.links[0].context.trace_id, "032x") == CREATOR.split("-")[1]
    assert span.attributes is not None
    assert span.attributes["aiosd.task.id"] == attempt.task.task_id


def test_the_sdk_works_with_nothing_but_its_two_dependencies() -> None:
    program = """
import sys
for absent in ("opentelemetry", "pydantic", "google.rpc", "grpc_status", "googleapis"):
    sys.modules[absent] = None
from aiosd.sdk import Client, Provider, testing, tracing
from aiosd.sdk import http_invoke
with tracing.attempt_span("c", "t", 1, ""):
    pass
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_trace_parent_is_no_link() -> None:
    with tracing.attempt_span("c", "t", 1, "rubbish"):
        pass
