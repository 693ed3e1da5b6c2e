"""What every store promises about webhooks, deliveries, secrets and the audit chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pytest

from aiosd.application.ports import CommitConflict, Queue, Store
from aiosd.application.trust_ports import AuditTrail, DeliveryQuery, Outbox
from aiosd.application.trust_writes import (
    AddDelivery,
    AppendAudit,
    DropSecret,
    DropWebhook,
    PutSecret,
    PutWebhook,
    UpdateDelivery,
)
from aiosd.domain.audit import AuditRecord, verify
from aiosd.domain.state import TaskState
from aiosd.domain.webhook import Delivery, DeliveryState, Webhook
from tests.contract.builders import NOW, a_task, put

A, B = "https://a.example:443", "https://b.example:443"


class TrustStore(Store, Queue, Outbox, AuditTrail, Protocol):
    """One object behind these ports."""


def a_webhook(task_id: str, webhook_id: str = "w-1", endpoint: str = A) -> Webhook:
    return Webhook(webhook_id, task_id, "owner", f"{endpoint}/hook", endpoint, endpoint)


def a_delivery(webhook: Webhook, number: int, next_time: int = NOW) -> AddDelivery:
    delivery = Delivery(
        id=f"delivery-{webhook.task_id[-4:]}-{webhook.id}-{number}",
        webhook_id=webhook.id,
        task_id=webhook.task_id,
        sequence=number,
        event="task.status",
        url=webhook.shown_url,
        create_time=NOW,
        update_time=NOW,
        next_time=next_time,
    )
    return AddDelivery(delivery, "owner", f"content {number}".encode())


class TrustContract:
    """Inherited by the tests of each store."""

    @pytest.mark.req("R133")
    async def test_a_webhook_can_be_read_back_replaced_and_dropped(self, store: TrustStore) -> None:
        task = a_task(1)
        webhook = a_webhook(task.id)
        await store.commit([put(task), PutWebhook(webhook)])
        assert list(await store.webhooks(task.id)) == [webhook]
        changed = replace(webhook, events=("completed",), disabled=True, max_retries=0)
        await store.commit([PutWebhook(changed)])
        assert list(await store.webhooks(task.id)) == [changed]
        await store.commit([DropWebhook(task.id, webhook.id)])
        await store.commit([DropWebhook(task.id, webhook.id)])
        assert list(await store.webhooks(task.id)) == []

    @pytest.mark.req("R133", "I33")
    async def test_the_oldest_pending_delivery_of_each_webhook_is_due(
        self, store: TrustStore
    ) -> None:
        one, two = a_task(1), a_task(2)
        first, second = a_webhook(one.id), a_webhook(two.id, endpoint=B)
        await store.commit([put(one), put(two), PutWebhook(first), PutWebhook(second)])
        await store.commit([a_delivery(first, 1, NOW + 50), a_delivery(first, 2, NOW)])
        await store.commit([a_delivery(second, 1, NOW + 10)])
        due = await store.due_deliveries((), 10)
        assert [(found.task_id, found.due_time) for found in due] == [
            (two.id, NOW + 10),
            (one.id, NOW + 50),
        ]
        assert due[1].delivery_id.endswith("-1")
        assert [found.task_id for found in await store.due_deliveries((), 1)] == [two.id]
        assert [found.task_id for found in await store.due_deliveries({B}, 10)] == [one.id]
        assert await store.due_deliveries({A, B}, 10) == []

    async def test_an_attempt_moves_a_delivery_and_lets_the_next_one_be_due(
        self, store: TrustStore
    ) -> None:
        task = a_task(1)
        webhook = a_webhook(task.id)
        first, second = a_delivery(webhook, 1), a_delivery(webhook, 2, NOW + 5)
        await store.commit([put(task), PutWebhook(webhook), first, second])
        out = await store.outgoing(first.delivery.id)
        assert out is not None
        assert (out.webhook, out.content, out.sealed) == (webhook, b"content 1", b"")
        later = replace(first.delivery, attempts=1, next_time=NOW + 99, last_status=500)
        await store.commit([UpdateDelivery(later, 0)])
        assert [one.due_time for one in await store.due_deliveries((), 9)] == [NOW + 99]
        done = replace(later, attempts=2, state=DeliveryState.SUCCEEDED, next_time=0)
        await store.commit([UpdateDelivery(done, 1)])
        (due,) = await store.due_deliveries((), 9)
        assert (due.delivery_id, due.due_time) == (second.delivery.id, NOW + 5)
        assert await store.outgoing(first.delivery.id) is None
        assert await store.delivery(first.delivery.id, "owner") == done

    async def test_an_update_of_a_delivery_that_moved_on_or_is_gone_is_refused(
        self, store: TrustStore
    ) -> None:
        task = a_task(1)
        webhook = a_webhook(task.id)
        added = a_delivery(webhook, 1)
        await store.commit([put(task), PutWebhook(webhook), added])
        tried = replace(added.delivery, attempts=1)
        await store.commit([UpdateDelivery(tried, 0)])
        with pytest.raises(CommitConflict):
            await store.commit([UpdateDelivery(tried, 0)])
        await store.commit([DropWebhook(task.id, webhook.id)])
        with pytest.raises(CommitConflict):
            await store.commit([UpdateDelivery(replace(tried, attempts=2), 1)])
        assert await store.delivery(added.delivery.id, "owner") is None

    async def test_a_delivery_needs_its_webhook(self, store: TrustStore) -> None:
        task = a_task(1)
        await store.commit([put(task)])
        with pytest.raises(CommitConflict):
            await store.commit([a_delivery(a_webhook(task.id), 1)])

    @pytest.mark.req("S-18", "H05")
    async def test_deliveries_are_listed_newest_first_for_their_owner_only(
        self, store: TrustStore
    ) -> None:
        task = a_task(1)
        webhook = a_webhook(task.id)
        added = [a_delivery(webhook, number) for number in range(1, 6)]
        await store.commit([put(task), PutWebhook(webhook), *added])
        page = await store.deliveries(DeliveryQuery("owner", limit=2))
        assert [one.sequence for _, one in page] == [5, 4]
        rest = await store.deliveries(DeliveryQuery("owner", task_id=task.id, before=page[-1][0]))
        assert [one.sequence for _, one in rest] == [3, 2, 1]
        dead = DeliveryQuery("owner", state=DeliveryState.DEAD_LETTER)
        assert list(await store.deliveries(dead)) == []
        assert list(await store.deliveries(DeliveryQuery("other"))) == []
        assert await store.delivery(added[0].delivery.id, "other") is None

    @pytest.mark.req("S-28")
    async def test_a_secret_lives_as_long_as_its_task(self, store: TrustStore) -> None:
        task = a_task(1, state=TaskState.COMPLETED)
        webhook = a_webhook(task.id)
        name = f"webhook:{task.id}:{webhook.id}"
        await store.commit([put(task), PutWebhook(webhook), PutSecret(name, task.id, b"one")])
        await store.commit([PutSecret(name, task.id, b"two"), a_delivery(webhook, 1)])
        assert await store.secret(name) == b"two"
        (due,) = await store.due_deliveries((), 1)
        out = await store.outgoing(due.delivery_id)
        assert out is not None
        assert out.sealed == b"two"
        await store.forget([task.id], 0)
        assert await store.secret(name) is None
        assert list(await store.webhooks(task.id)) == []
        assert await store.due_deliveries((), 1) == []

    async def test_a_dropped_secret_is_gone(self, store: TrustStore) -> None:
        task = a_task(1)
        await store.commit([put(task), PutSecret("s", task.id, b"x")])
        await store.commit([DropSecret("s"), DropSecret("s")])
        assert await store.secret("s") is None

    @pytest.mark.req("S-32", "R200")
    async def test_records_are_chained_in_the_order_of_commits_and_outlive_their_task(
        self, store: TrustStore
    ) -> None:
        task = a_task(1, state=TaskState.COMPLETED)
        made = AuditRecord(NOW, "task.created", "owner", task_id=task.id)
        ended = replace(made, event="task.completed")
        other = replace(made, task_id="", event="call.refused")
        await store.commit([put(task), AppendAudit((made, ended))])
        await store.commit([AppendAudit((other,))])
        await store.forget([task.id], 0)
        found = await store.audit_records("", "", 0, 10)
        assert [one.record for one in found] == [made, ended, other]
        head = await store.audit_head()
        assert (head.sequence, head.hash) == (3, found[-1].hash)
        assert verify(b"", found, head).intact
        assert [one.sequence for one in await store.audit_records(task.id, "", 1, 9)] == [2]
        assert [one.sequence for one in await store.audit_records("", "call.refused", 0, 9)] == [3]

    @pytest.mark.req("S-32", "I43")
    async def test_a_refused_commit_leaves_no_record(self, store: TrustStore) -> None:
        task = a_task(1)
        record = AuditRecord(NOW, "task.created", "owner", task_id=task.id)
        await store.commit([put(task), AppendAudit((record,))])
        with pytest.raises(CommitConflict):
            await store.commit([AppendAudit((record,)), put(task)])
        assert (await store.audit_head()).sequence == 1
        await store.commit([AppendAudit((record,))])
        found = await store.audit_records("", "", 0, 10)
        assert verify(b"", found, await store.audit_head()).intact
