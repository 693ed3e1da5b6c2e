"""Webhooks, deliveries, secrets and the audit in memory: the ports Outbox and AuditTrail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosd.application.ports import CommitConflict
from aiosd.application.trust_ports import DeliveryQuery, Due, Outgoing
from aiosd.application.trust_writes import (
    AddDelivery,
    AppendAudit,
    DropSecret,
    DropWebhook,
    PutSecret,
    PutWebhook,
    TrustWrite,
    UpdateDelivery,
)
from aiosd.domain.audit import Head, SealedRecord, seal
from aiosd.domain.webhook import Delivery, DeliveryState, Webhook

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from aiosd.adapters.memory.records import Records


@dataclass(slots=True)
class Posted:
    """A delivery with its place in the order of all, its owner and its bytes."""

    row: int
    delivery: Delivery
    principal: str
    content: bytes


@dataclass(slots=True)
class TrustRecords:
    """What the store in memory keeps of all this. Dictionaries keep the order of insertion."""

    webhooks: dict[tuple[str, str], Webhook] = field(default_factory=dict)
    deliveries: dict[str, Posted] = field(default_factory=dict)
    secrets: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    audit: dict[int, SealedRecord] = field(default_factory=dict)
    rows: int = 0

    def forget(self, task_id: str) -> None:
        """Delete what a task owns; the audit stays."""
        self.webhooks = {key: one for key, one in self.webhooks.items() if key[0] != task_id}
        self.deliveries = {
            key: one for key, one in self.deliveries.items() if one.delivery.task_id != task_id
        }
        self.secrets = {key: one for key, one in self.secrets.items() if one[0] != task_id}

    def head(self) -> Head:
        """The end of the chain."""
        if not self.audit:
            return Head()
        last = self.audit[len(self.audit)]
        return Head(last.sequence, last.hash)


def apply(records: Records, kept: TrustRecords, write: TrustWrite) -> None:
    """Do one write; raises CommitConflict. `records` know the tasks and undo it."""
    match write:
        case PutWebhook():
            webhook = write.webhook
            records.require(webhook.task_id)
            records.put(kept.webhooks, (webhook.task_id, webhook.id), webhook)
        case DropWebhook():
            key = (write.task_id, write.webhook_id)
            if key in kept.webhooks:
                records.delete(kept.webhooks, key)
            for name, one in tuple(kept.deliveries.items()):
                if (one.delivery.task_id, one.delivery.webhook_id) == key:
                    records.delete(kept.deliveries, name)
        case AddDelivery():
            delivery = write.delivery
            if (delivery.task_id, delivery.webhook_id) not in kept.webhooks:
                raise CommitConflict(f"there is no webhook {delivery.webhook_id}")
            kept.rows += 1
            posted = Posted(kept.rows, delivery, write.principal, write.content)
            records.put(kept.deliveries, delivery.id, posted)
        case UpdateDelivery():
            delivery = write.delivery
            before = kept.deliveries.get(delivery.id)
            if before is None or before.delivery.attempts != write.expected_attempts:
                raise CommitConflict(f"delivery {delivery.id} is gone or was tried meanwhile")
            arrived = delivery.state is DeliveryState.SUCCEEDED
            content = b"" if arrived else before.content
            after = Posted(before.row, delivery, before.principal, content)
            records.put(kept.deliveries, delivery.id, after)
        case PutSecret():
            records.require(write.task_id)
            records.put(kept.secrets, write.id, (write.task_id, write.sealed))
        case DropSecret():
            if write.id in kept.secrets:
                records.delete(kept.secrets, write.id)
        case AppendAudit():
            for record in write.records:
                sealed = seal(b"", kept.head(), record)
                records.put(kept.audit, sealed.sequence, sealed)


class TrustReads:
    """What the store in memory knows of webhooks, secrets and the audit."""

    _records: Records
    _trust: TrustRecords

    async def webhooks(self, task_id: str) -> Sequence[Webhook]:
        """All of a task, in the order they were registered."""
        kept = self._trust.webhooks
        return [webhook for (owner, _), webhook in kept.items() if owner == task_id]

    async def due_deliveries(self, resting: Collection[str], limit: int) -> Sequence[Due]:
        """The head of each webhook's pending deliveries, soonest first."""
        kept = self._trust
        heads: dict[tuple[str, str], Delivery] = {}
        for one in sorted(kept.deliveries.values(), key=lambda one: one.row):
            delivery = one.delivery
            if delivery.state is DeliveryState.PENDING:
                heads.setdefault((delivery.task_id, delivery.webhook_id), delivery)
        found = [
            Due(*key, head.id, kept.webhooks[key].endpoint, head.next_time)
            for key, head in heads.items()
            if kept.webhooks[key].endpoint not in resting
        ]
        return sorted(found, key=lambda one: one.due_time)[:limit]

    async def outgoing(self, delivery_id: str) -> Outgoing | None:
        """What is needed to post a pending delivery."""
        kept = self._trust
        found = kept.deliveries.get(delivery_id)
        if found is None or found.delivery.state is not DeliveryState.PENDING:
            return None
        delivery = found.delivery
        webhook = kept.webhooks[delivery.task_id, delivery.webhook_id]
        _, sealed = kept.secrets.get(f"webhook:{webhook.task_id}:{webhook.id}", ("", b""))
        trace_parent = self._records.tasks[delivery.task_id].task.request.trace_parent
        return Outgoing(delivery, webhook, found.content, sealed, trace_parent)

    async def delivery(self, delivery_id: str, principal: str) -> Delivery | None:
        """One of the principal's deliveries."""
        found = self._trust.deliveries.get(delivery_id)
        return found.delivery if found is not None and found.principal == principal else None

    async def deliveries(self, query: DeliveryQuery) -> Sequence[tuple[int, Delivery]]:
        """Row number and delivery, newest first."""
        found = [
            (one.row, one.delivery)
            for one in self._trust.deliveries.values()
            if one.principal == query.principal
            and (not query.task_id or one.delivery.task_id == query.task_id)
            and (query.state is None or one.delivery.state is query.state)
            and (not query.before or one.row < query.before)
        ]
        return sorted(found, key=lambda one: one[0], reverse=True)[: query.limit]

    async def secret(self, secret_id: str) -> bytes | None:
        """A sealed secret."""
        found = self._trust.secrets.get(secret_id)
        return found[1] if found is not None else None

    async def audit_records(
        self, task_id: str, event: str, after: int, limit: int
    ) -> Sequence[SealedRecord]:
        """Records with a sequence above `after`, in order."""
        found = [
            one
            for sequence, one in sorted(self._trust.audit.items())
            if sequence > after
            and (not task_id or one.record.task_id == task_id)
            and (not event or one.record.event == event)
        ]
        return found[:limit]

    async def audit_head(self) -> Head:
        """The newest record's place and hash."""
        return self._trust.head()
