"""The audit chain on SQLite: the writer seals each record inside the transaction it belongs to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from aiosd.domain.audit import AuditRecord, Head, SealedRecord, seal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from aiosd.adapters.sqlite.readers import Readers
    from aiosd.adapters.sqlite.transaction import Change, Transaction
    from aiosd.application.trust_writes import AppendAudit

RECORDS = """
    SELECT sequence, time, event, principal, method, task_id, capability_id, decision, details,
    request_hash, previous_hash, hash FROM audit_records
"""
_NEWEST = "SELECT sequence, hash FROM audit_records ORDER BY sequence DESC LIMIT 1"


def append_audit(write: AppendAudit) -> Change:
    """Put records at the end of the chain, in the order of commits."""

    def change(tx: Transaction) -> None:
        head = Head(*(tx.execute(_NEWEST).get or ()))
        for record in write.records:
            sealed = seal(tx.audit_key, head, record)
            head = Head(sealed.sequence, sealed.hash)
            tx.execute(
                "INSERT INTO audit_records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(sealed.sequence, record.time, record.event, record.principal),
                    *(record.method, record.task_id, record.capability_id, record.decision),
                    *(record.details, record.request_hash, sealed.previous_hash, sealed.hash),
                ),
            )

    return change


def sealed_of(row: Sequence[Any]) -> SealedRecord:
    """The record of a row of RECORDS."""
    sequence, *members, previous, digest = row
    return SealedRecord(sequence, AuditRecord(*members), previous, digest)


def _records(
    connection: apsw.Connection, task_id: str, event: str, after: int, limit: int
) -> list[SealedRecord]:
    wanted = ["sequence > ?"]
    bindings: list[Any] = [after]
    if task_id:
        wanted.append("task_id = ? AND task_id <> ''")
        bindings.append(task_id)
    if event:
        wanted.append("event = ?")
        bindings.append(event)
    rest = f"WHERE {' AND '.join(wanted)} ORDER BY sequence LIMIT ?"
    found = connection.execute(f"{RECORDS} {rest}", (*bindings, limit)).fetchall()
    return [sealed_of(row) for row in found]


def _head(connection: apsw.Connection) -> Head:
    return Head(*(connection.execute(_NEWEST).get or ()))


class TrailReads:
    """The port AuditTrail, for a store with readers."""

    _readers: Readers

    async def audit_records(
        self, task_id: str, event: str, after: int, limit: int
    ) -> Sequence[SealedRecord]:
        """Records with a sequence above `after`, in order."""
        ask = partial(_records, task_id=task_id, event=event, after=after, limit=limit)
        return await self._readers.read(ask)

    async def audit_head(self) -> Head:
        """The newest record's place and hash."""
        return await self._readers.read(_head)
