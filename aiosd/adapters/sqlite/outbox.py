"""Webhooks, deliveries and secrets on SQLite: their writes, their reads, and the port Outbox."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from aiosd.adapters.sqlite import rows
from aiosd.application.ports import CommitConflict
from aiosd.application.trust_ports import DeliveryQuery, Due, Outgoing
from aiosd.domain.task import TaskRequest
from aiosd.domain.webhook import Delivery, DeliveryState, Webhook

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import apsw

    from aiosd.adapters.sqlite.readers import Readers
    from aiosd.adapters.sqlite.transaction import Change, Transaction
    from aiosd.application.trust_writes import (
        AddDelivery,
        DropSecret,
        DropWebhook,
        PutSecret,
        PutWebhook,
        UpdateDelivery,
    )

# --- writes -----------------------------------------------------------------------------------

#: The due time of a webhook is that of its oldest pending delivery.
_RECKON = """
    UPDATE webhooks SET due_time = coalesce((SELECT next_time FROM deliveries
    WHERE webhook = ?1 AND state = 1 ORDER BY row LIMIT 1), 0) WHERE row = ?1
"""


def put_webhook(write: PutWebhook) -> Change:
    """Insert or replace a webhook."""
    webhook = write.webhook
    body = rows.encode(webhook)

    def change(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO webhooks VALUES (NULL, ?, ?, ?, 0, ?) ON CONFLICT (task, webhook_id)"
            " DO UPDATE SET endpoint = excluded.endpoint, body = excluded.body",
            (tx.row(webhook.task_id), webhook.id, webhook.endpoint, body),
        )

    return change


def drop_webhook(write: DropWebhook) -> Change:
    """Delete a webhook with what waits for it."""

    def change(tx: Transaction) -> None:
        tx.execute(
            "DELETE FROM webhooks WHERE webhook_id = ?"
            " AND task = (SELECT row FROM tasks WHERE id = ?)",
            (write.webhook_id, write.task_id),
        )

    return change


def add_delivery(write: AddDelivery) -> Change:
    """Put a delivery behind those that its webhook has."""
    delivery = write.delivery
    body = rows.encode(delivery)

    def change(tx: Transaction) -> None:
        webhook = tx.execute(
            "SELECT row FROM webhooks WHERE task = ? AND webhook_id = ?",
            (tx.row(delivery.task_id), delivery.webhook_id),
        ).get
        if webhook is None:
            raise CommitConflict(f"there is no webhook {delivery.webhook_id}")
        tx.execute(
            "INSERT INTO deliveries VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(delivery.id, webhook, write.principal, int(delivery.state)),
                *(delivery.attempts, delivery.next_time, body, write.content),
            ),
        )
        tx.execute(_RECKON, (webhook,))

    return change


def update_delivery(write: UpdateDelivery) -> Change:
    """Replace a delivery's state, its content once it is not needed any more."""
    delivery = write.delivery
    body = rows.encode(delivery)
    done = delivery.state is DeliveryState.SUCCEEDED

    def change(tx: Transaction) -> None:
        webhook = tx.execute(
            "UPDATE deliveries SET state = ?, attempts = ?, next_time = ?, body = ?,"
            " content = iif(?, x'', content) WHERE id = ? AND attempts = ? RETURNING webhook",
            (
                *(int(delivery.state), delivery.attempts, delivery.next_time, body, done),
                *(delivery.id, write.expected_attempts),
            ),
        ).get
        if webhook is None:
            raise CommitConflict(f"delivery {delivery.id} is gone or was tried meanwhile")
        tx.execute(_RECKON, (webhook,))

    return change


def put_secret(write: PutSecret) -> Change:
    """Insert or replace a sealed secret."""

    def change(tx: Transaction) -> None:
        columns = (write.id, tx.row(write.task_id), write.sealed)
        tx.execute("INSERT OR REPLACE INTO secrets VALUES (?, ?, ?)", columns)

    return change


def drop_secret(write: DropSecret) -> Change:
    """Delete a secret."""

    def change(tx: Transaction) -> None:
        tx.execute("DELETE FROM secrets WHERE id = ?", (write.id,))

    return change


# --- reads ------------------------------------------------------------------------------------


def _rows(connection: apsw.Connection, sql: str, bindings: Sequence[Any]) -> list[Any]:
    return connection.execute(sql, bindings).fetchall()


def _webhooks(connection: apsw.Connection, task_id: str) -> list[Webhook]:
    found = _rows(
        connection,
        "SELECT body FROM webhooks WHERE task = (SELECT row FROM tasks WHERE id = ?) ORDER BY row",
        (task_id,),
    )
    return [rows.decode(Webhook, body) for (body,) in found]


def _due(connection: apsw.Connection, resting: str, limit: int) -> list[Due]:
    found = _rows(
        connection,
        "SELECT tasks.id, webhook_id, (SELECT id FROM deliveries WHERE webhook = webhooks.row"
        " AND deliveries.state = 1 ORDER BY row LIMIT 1), endpoint, webhooks.due_time"
        " FROM webhooks JOIN tasks ON tasks.row = webhooks.task"
        " WHERE webhooks.due_time > 0 AND endpoint NOT IN (SELECT value FROM json_each(?))"
        " ORDER BY webhooks.due_time LIMIT ?",
        (resting, limit),
    )
    return [Due(*row) for row in found]


def _outgoing(connection: apsw.Connection, delivery_id: str) -> Outgoing | None:
    found = _rows(
        connection,
        "SELECT deliveries.body, webhooks.body, content, secrets.sealed, task_requests.body"
        " FROM deliveries JOIN webhooks ON webhooks.row = webhook"
        " JOIN tasks ON tasks.row = webhooks.task"
        " JOIN task_requests ON task_requests.task = webhooks.task"
        " LEFT JOIN secrets ON secrets.id = 'webhook:' || tasks.id || ':' || webhook_id"
        " WHERE deliveries.id = ? AND deliveries.state = 1",
        (delivery_id,),
    )
    if not found:
        return None
    delivery, webhook, content, sealed, request = found[0]
    trace_parent = rows.decode(TaskRequest, request).trace_parent
    return Outgoing(
        rows.decode(Delivery, delivery),
        rows.decode(Webhook, webhook),
        content,
        sealed or b"",
        trace_parent,
    )


def _delivery(connection: apsw.Connection, delivery_id: str, principal: str) -> Delivery | None:
    found = _rows(
        connection,
        "SELECT body FROM deliveries WHERE id = ? AND principal = ?",
        (delivery_id, principal),
    )
    return rows.decode(Delivery, found[0][0]) if found else None


_DELIVERIES = "SELECT row, body FROM deliveries"


def _deliveries(connection: apsw.Connection, query: DeliveryQuery) -> list[tuple[int, Delivery]]:
    wanted = ["principal = ?"]
    bindings: list[Any] = [query.principal]
    if query.task_id:
        wanted.append(
            "webhook IN (SELECT row FROM webhooks"
            " WHERE task = (SELECT row FROM tasks WHERE id = ?))"
        )
        bindings.append(query.task_id)
    if query.state is not None:
        wanted.append("state = ?")
        bindings.append(int(query.state))
    if query.before:
        wanted.append("row < ?")
        bindings.append(query.before)
    rest = f"WHERE {' AND '.join(wanted)} ORDER BY row DESC LIMIT ?"
    found = _rows(connection, f"{_DELIVERIES} {rest}", (*bindings, query.limit))
    return [(row, rows.decode(Delivery, body)) for row, body in found]


def _secret(connection: apsw.Connection, secret_id: str) -> bytes | None:
    found = _rows(connection, "SELECT sealed FROM secrets WHERE id = ?", (secret_id,))
    return found[0][0] if found else None


class OutboxReads:
    """The port Outbox, for a store with readers."""

    _readers: Readers

    async def webhooks(self, task_id: str) -> Sequence[Webhook]:
        """All of a task, in the order they were registered."""
        return await self._readers.read(partial(_webhooks, task_id=task_id))

    async def due_deliveries(self, resting: Collection[str], limit: int) -> Sequence[Due]:
        """The head of each webhook's pending deliveries, soonest first."""
        names = json.dumps(sorted(resting))
        return await self._readers.read(partial(_due, resting=names, limit=limit))

    async def outgoing(self, delivery_id: str) -> Outgoing | None:
        """What is needed to post a pending delivery."""
        return await self._readers.read(partial(_outgoing, delivery_id=delivery_id))

    async def delivery(self, delivery_id: str, principal: str) -> Delivery | None:
        """One of the principal's deliveries."""
        ask = partial(_delivery, delivery_id=delivery_id, principal=principal)
        return await self._readers.read(ask)

    async def deliveries(self, query: DeliveryQuery) -> Sequence[tuple[int, Delivery]]:
        """Row number and delivery, newest first."""
        return await self._readers.read(partial(_deliveries, query=query))

    async def secret(self, secret_id: str) -> bytes | None:
        """A sealed secret."""
        return await self._readers.read(partial(_secret, secret_id=secret_id))
