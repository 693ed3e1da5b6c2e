"""The outbox: what a commit of a task adds for its webhooks, in the same transaction (R133)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from aiosd.application.trust_writes import AddDelivery
from aiosd.domain.webhook import Delivery, wants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.ports import Ids
    from aiosd.application.trust_ports import Outbox, WebhookBodies
    from aiosd.application.writes import Write
    from aiosd.domain.draft import Draft
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task
    from aiosd.domain.webhook import Webhook

CACHED_TASKS = 4096


class Outgoings:
    """Knows the webhooks of tasks; a task that never had one costs a comparison."""

    def __init__(self, outbox: Outbox, bodies: WebhookBodies, ids: Ids) -> None:
        self._outbox = outbox
        self._bodies = bodies
        self._ids = ids
        #: Task id -> the revision of its webhooks, and these.
        self._known: OrderedDict[str, tuple[int, Sequence[Webhook]]] = OrderedDict()

    def remember(self, task_id: str, revision: int, webhooks: Sequence[Webhook]) -> None:
        """The webhooks that a task has from that revision of them on."""
        self._known[task_id] = (revision, webhooks)
        self._known.move_to_end(task_id)
        if len(self._known) > CACHED_TASKS:
            self._known.popitem(last=False)

    def forget(self, task_id: str) -> None:
        """What was remembered may not have been stored: the store is asked again."""
        self._known.pop(task_id, None)

    async def record(self, before: Task | None, draft: Draft) -> Sequence[Write]:
        """A delivery for each event and each webhook that wants it (Ledger recorder)."""
        task = draft.task
        if not task.webhook_revision or not draft.events:
            return ()
        webhooks = await self._of(task)
        return [
            added
            for event in map(draft.with_parts, draft.events)
            for webhook in webhooks
            if wants(webhook.events, event)
            and (added := self.delivery(webhook, task, event, draft.now)) is not None
        ]

    def delivery(self, webhook: Webhook, task: Task, event: Event, now: int) -> AddDelivery | None:
        """The write that posts an event to a webhook; None if there is nothing to say."""
        if webhook.disabled:
            return None
        rendered = self._bodies.render(webhook.format, task, event)
        if rendered is None:
            return None
        delivery = Delivery(
            id=self._ids.new("delivery"),
            webhook_id=webhook.id,
            task_id=task.id,
            sequence=event.sequence,
            event=rendered.event,
            url=webhook.shown_url,
            create_time=now,
            update_time=now,
            next_time=now,
        )
        return AddDelivery(delivery, task.principal, rendered.content)

    async def _of(self, task: Task) -> Sequence[Webhook]:
        known = self._known.get(task.id)
        if known is not None and known[0] == task.webhook_revision:
            return known[1]
        webhooks = await self._outbox.webhooks(task.id)
        self.remember(task.id, task.webhook_revision, webhooks)
        return webhooks
