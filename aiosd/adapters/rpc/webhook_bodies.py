"""Bodies of webhooks: one renderer for each format (ADR 0010)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.a2a_wire import words as a2a_words
from aiosd.adapters.rpc import a2a_bodies
from aiosd.adapters.rpc.codec.events import to_event
from aiosd.adapters.rpc.codec.tasks import to_task
from aiosd.aios_wire import events, fragments, words
from aiosd.aios_wire.timestamps import to_text
from aiosd.application.trust_ports import Rendered
from aiosd.domain.event import StatusChanged
from aiosd.domain.webhook import WebhookFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiosd.domain.event import Event
    from aiosd.domain.task import Task

#: Makes the body of an event, or nothing where its wire has no word for it.
Renderer: TypeAlias = "Callable[[Task, Event], Rendered | None]"


class FormattedBodies:
    """The port WebhookBodies: a table of renderers and of their content types."""

    def __init__(self, formats: dict[WebhookFormat, tuple[str, Renderer]] | None = None) -> None:
        self._formats = FORMATS if formats is None else formats

    def supports(self, form: WebhookFormat) -> bool:
        """Whether there is a renderer for it."""
        return form in self._formats

    def content_type(self, form: WebhookFormat) -> str:
        """Of every body of that format."""
        return self._formats[form][0]

    def render(self, form: WebhookFormat, task: Task, event: Event) -> Rendered | None:
        """The body of an event."""
        return self._formats[form][1](task, event)


def render_aios(task: Task, event: Event) -> Rendered | None:
    """`{event, task_id, timestamp, data}` (R127); an end carries what came of it (X20)."""
    message = to_event(event)
    named = events.name_and_data(message, task.request.trace_parent)
    if named is None:
        return None
    name, data = named
    if isinstance(event.payload, StatusChanged) and event.payload.state is task.state:
        data = data | _ending(task)
    body = {
        "event": name,
        "task_id": event.task_id,
        "timestamp": to_text(message.time),
        "data": data,
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return Rendered(name, text.encode())


def _ending(task: Task) -> dict[str, Any]:
    if not task.terminal:
        return {}
    message = to_task(task, task.end_time)
    ending: dict[str, Any] = {}
    if words.status(message.state) == "completed":
        ending["result"] = fragments.json_or(message.result, None)
    elif task.failure is not None:
        ending["error"] = fragments.task_error(message)
    return ending


#: A further wire adds its line here.
FORMATS: dict[WebhookFormat, tuple[str, Renderer]] = {
    WebhookFormat.AIOS: ("application/json", render_aios),
    WebhookFormat.A2A: (a2a_words.MEDIA_TYPE, a2a_bodies.render_a2a),
}
