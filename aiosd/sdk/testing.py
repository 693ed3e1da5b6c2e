"""Seams for tests and for the lab: faults that a provider must never produce by itself.

Nothing else in the SDK imports this module. Each function takes the TaskContext of a running
attempt and makes its provider misbehave in one way, over the real stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import json_text

if TYPE_CHECKING:
    from aiosd.sdk.context import TaskContext
    from aiosd.sdk.provider import Provider


def freeze(provider: Provider, duration_ms: int) -> None:
    """Send nothing for this long, heartbeats included, as a suspended process would."""
    if provider._running is not None:
        provider._running[1].freeze(duration_ms)


async def complete_raw(task: TaskContext, result: Any) -> None:
    """Report completion now and keep running: what is reported later is a duplicate."""
    completed = wire.Completed(result=json_text.dump(result, "result"))
    await task._attempt.tell(wire.Report(completed=completed))


async def report_raw(task: TaskContext, report: wire.Report) -> None:
    """Send any report, numbered as the next one, without looking at the answer."""
    await task._attempt.tell(report)


def ignore_cancel(task: TaskContext) -> None:
    """Keep running when Cancel arrives."""
    task._attempt.ignores_cancel = True


async def cancel_arrived(task: TaskContext) -> str:
    """Wait for Cancel, with `ignore_cancel` before it; returns its reason."""
    await task._attempt.cancel_arrived.wait()
    return task._attempt.cancel_reason
