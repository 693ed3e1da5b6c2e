"""Writes as SQL: what each does inside the transaction of a batch.

Encoding happens before, on the caller's side, so that a value which cannot be written fails there
and not in the middle of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.adapters.sqlite import access, content, outbox, rows, runtimes, trail
from aiosd.application.access_writes import DropGrant, PutGrant, PutToken
from aiosd.application.ports import CommitConflict
from aiosd.application.trust_writes import (
    AddDelivery,
    AppendAudit,
    DropSecret,
    DropWebhook,
    PutSecret,
    PutWebhook,
    UpdateDelivery,
)
from aiosd.application.writes import (
    AppendEvents,
    AppendOperationEvents,
    CutEvents,
    DropClientSession,
    DropSubscription,
    IdempotencyKey,
    PutArtifact,
    PutCapability,
    PutChunk,
    PutClientSession,
    PutInstance,
    PutMessage,
    PutOperation,
    PutSubscription,
    PutTask,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aiosd.adapters.sqlite.transaction import Change, Transaction


def encode(writes: Iterable[Write]) -> list[Change]:
    """The changes of a commit, in order."""
    return [_ENCODERS[type(write)](write) for write in writes]


def _put_task(write: PutTask) -> Change:
    task, expected = write.task, write.expected_revision
    body = rows.task_body(task)
    checkpoint = task.attempt.checkpoint
    if expected == 0:
        return _insert_task(write, body)
    standing = (int(task.state), task.start_time, task.state_time, task.end_time)
    moving = (task.update_time, task.due_time(), task.revision, body)

    def change(tx: Transaction) -> None:
        found = tx.execute(
            "SELECT row, revision, principal, capability_id,"
            " state, start_time, state_time, end_time FROM tasks WHERE id = ?",
            (task.id,),
        ).get
        if found is None or found[1] != expected:
            raise CommitConflict(f"task {task.id} is no longer at revision {expected}")
        row, _, principal, capability_id, *stood = found
        tx.remember(task.id, row)
        if tuple(stood) == standing:
            tx.execute(
                "UPDATE tasks SET update_time = ?, due_time = ?, revision = ?, body = ?"
                " WHERE row = ?",
                (*moving, row),
            )
        else:
            # Apart because every index on a column that is named here is written again.
            tx.execute(
                "UPDATE tasks SET state = ?, start_time = ?, state_time = ?, end_time = ?,"
                " ended = ?, update_time = ?, due_time = ?, revision = ?, body = ? WHERE row = ?",
                (*standing, task.terminal, *moving, row),
            )
            tx.counts[principal, capability_id, stood[0]] -= 1
            tx.counts[principal, capability_id, standing[0]] += 1
        _put_checkpoint(tx, row, checkpoint)

    return change


def _insert_task(write: PutTask, body: bytes) -> Change:
    task = write.task
    request = rows.encode(task.request)
    columns = (
        task.id,
        task.principal,
        task.context_id,
        task.request.capability_id,
        task.state,
        task.options.priority,
        task.create_time,
        task.start_time,
        task.update_time,
        task.state_time,
        task.end_time,
        task.terminal,
        task.due_time(),
        task.revision,
        body,
    )

    def change(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO tasks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", columns
        )
        row = tx.last_row()
        tx.remember(task.id, row)
        tx.execute("INSERT INTO task_requests VALUES (?, ?)", (row, request))
        tx.counts[task.principal, task.request.capability_id, int(task.state)] += 1
        if task.attempt.checkpoint:
            _put_checkpoint(tx, row, task.attempt.checkpoint)

    return change


def _put_checkpoint(tx: Transaction, row: int, checkpoint: str) -> None:
    # Comparing reads what writing would have to write and sync.
    stored = tx.execute("SELECT body = ? FROM task_checkpoints WHERE task = ?", (checkpoint, row))
    same = stored.get
    if same or (same is None and not checkpoint):
        return
    if checkpoint:
        tx.execute("INSERT OR REPLACE INTO task_checkpoints VALUES (?, ?)", (row, checkpoint))
    else:
        tx.execute("DELETE FROM task_checkpoints WHERE task = ?", (row,))


def _append_events(write: AppendEvents) -> Change:
    # The task's row is known only in the transaction.
    events = [rows.event_row(0, event)[1:] for event in write.events]
    history = [(change.sequence, rows.encode(change)) for change in write.history]

    def change(tx: Transaction) -> None:
        row = tx.row(write.task_id)
        for event in events:
            tx.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (row, *event))
        for entry in history:
            tx.execute("INSERT INTO state_changes VALUES (?, ?, ?)", (row, *entry))

    return change


def _cut_events(write: CutEvents) -> Change:
    def change(tx: Transaction) -> None:
        row = tx.row(write.task_id)
        tx.execute("DELETE FROM events WHERE task = ? AND sequence < ?", (row, write.floor))

    return change


def _put_key(key: IdempotencyKey) -> Change:
    columns = (key.principal, key.method, key.key, key.fingerprint, key.target, key.create_time)

    def change(tx: Transaction) -> None:
        tx.execute("INSERT INTO idempotency_keys VALUES (NULL, ?, ?, ?, ?, ?, ?)", columns)

    return change


def _put_capability(write: PutCapability) -> Change:
    columns = (write.capability.id, rows.encode(write.capability))

    def change(tx: Transaction) -> None:
        tx.execute("INSERT OR REPLACE INTO capabilities VALUES (?, ?)", columns)

    return change


def _put_subscription(write: PutSubscription) -> Change:
    subscription = write.subscription
    body = rows.encode(subscription)

    def change(tx: Transaction) -> None:
        row = tx.row(subscription.task_id)
        tx.execute("INSERT INTO subscriptions VALUES (?, ?, ?)", (subscription.id, row, body))

    return change


def _drop_subscription(write: DropSubscription) -> Change:
    def change(tx: Transaction) -> None:
        tx.execute("DELETE FROM subscriptions WHERE id = ?", (write.subscription_id,))

    return change


def _put_client_session(write: PutClientSession) -> Change:
    session = write.session
    columns = (session.id, session.expire_time, rows.encode(session))

    def change(tx: Transaction) -> None:
        tx.execute("INSERT OR REPLACE INTO client_sessions VALUES (?, ?, ?)", columns)

    return change


def _drop_client_session(write: DropClientSession) -> Change:
    def change(tx: Transaction) -> None:
        tx.execute("DELETE FROM client_sessions WHERE id = ?", (write.session_id,))

    return change


def forget(task_ids: Sequence[str], keys_before: int) -> Change:
    """Delete terminal tasks with all they own, and keys older than a time."""

    def change(tx: Transaction) -> None:
        for task_id in task_ids:
            gone = tx.execute(
                "DELETE FROM tasks WHERE id = ? AND ended = 1"
                " RETURNING principal, capability_id, state",
                (task_id,),
            ).get
            if gone is not None:
                tx.counts[gone] -= 1
        if keys_before:
            tx.execute("DELETE FROM idempotency_keys WHERE create_time < ?", (keys_before,))

    return change


_ENCODERS: dict[type[Write], Callable[..., Change]] = {
    PutTask: _put_task,
    AppendEvents: _append_events,
    CutEvents: _cut_events,
    PutArtifact: content.put_artifact,
    PutChunk: content.put_chunk,
    PutMessage: content.put_message,
    IdempotencyKey: _put_key,
    PutCapability: _put_capability,
    PutSubscription: _put_subscription,
    DropSubscription: _drop_subscription,
    PutClientSession: _put_client_session,
    DropClientSession: _drop_client_session,
    PutOperation: runtimes.put_operation,
    AppendOperationEvents: runtimes.append_operation_events,
    PutInstance: runtimes.put_instance,
    PutWebhook: outbox.put_webhook,
    DropWebhook: outbox.drop_webhook,
    AddDelivery: outbox.add_delivery,
    UpdateDelivery: outbox.update_delivery,
    PutSecret: outbox.put_secret,
    DropSecret: outbox.drop_secret,
    AppendAudit: trail.append_audit,
    PutGrant: access.put_grant,
    DropGrant: access.drop_grant,
    PutToken: access.put_token,
}
