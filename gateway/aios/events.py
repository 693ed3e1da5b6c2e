"""Events of a task as frames of this wire (wire.md 1.4, R064-R071).

The daemon numbers the events of a task densely; an id here is that number, so the same event has
the same id in every stream, replay and webhook. Chunks of an artifact that is not whole yet and
message envelopes have no word on this wire and leave gaps in the ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosd.aios_wire.events import name_and_data
from gateway import strict_json
from gateway.sse import Frame, format_event_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.api.v1 import event_pb2

Json = dict[str, Any]


def frames(events: Iterable[event_pb2.Event], trace_parent: str) -> list[Frame]:
    """The frames of events, in their order. `trace_parent` is the task's."""
    written = []
    for event in events:
        named = name_and_data(event, trace_parent)
        if named is not None:
            name, data = named
            event_id = format_event_id(event.sequence)
            written.append(Frame(strict_json.dumps(data), event=name, id=event_id))
    return written


def missed(events: Iterable[event_pb2.Event], trace_parent: str) -> list[Json]:
    """Events as `missed_events` lists them, with the very data of their frames (R074)."""
    return [
        {"id": format_event_id(event.sequence), "event": named[0], "data": named[1]}
        for event in events
        if (named := name_and_data(event, trace_parent)) is not None
    ]
