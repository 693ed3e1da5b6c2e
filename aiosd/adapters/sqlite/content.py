"""Artifacts, their chunks and messages as SQL: the writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.adapters.sqlite import rows

if TYPE_CHECKING:
    from aiosd.adapters.sqlite.transaction import Change, Transaction
    from aiosd.application.writes import PutArtifact, PutChunk, PutMessage


def put_artifact(write: PutArtifact) -> Change:
    """Insert or replace what is known of an artifact; its digests only grow within a version."""
    artifact = write.artifact
    body = rows.artifact_body(artifact)
    count = len(artifact.digests)

    def change(tx: Transaction) -> None:
        task = tx.row(write.task_id)
        found = tx.execute(
            "SELECT row, version, digests FROM artifacts WHERE task = ? AND artifact_id = ?",
            (task, artifact.artifact_id),
        ).get
        if found is None:
            tx.execute(
                "INSERT INTO artifacts VALUES (NULL, ?, ?, ?, ?, ?, ?)",
                (task, artifact.artifact_id, artifact.version, artifact.create_time, count, body),
            )
            row, known = tx.last_row(), 0
        else:
            row, version, known = found
            if version != artifact.version or known > count:
                tx.execute("DELETE FROM artifact_digests WHERE artifact = ?", (row,))
                known = 0
            tx.execute(
                "UPDATE artifacts SET version = ?, create_time = ?, digests = ?, body = ?"
                " WHERE row = ?",
                (artifact.version, artifact.create_time, count, body, row),
            )
        for position in range(known, count):
            tx.execute(
                "INSERT INTO artifact_digests VALUES (?, ?, ?)",
                (row, position, artifact.digests[position]),
            )

    return change


def put_chunk(write: PutChunk) -> Change:
    """Content of a chunk; chunks of older versions go."""
    chunk = write.chunk
    body, raw = rows.chunk_content(chunk)

    def change(tx: Transaction) -> None:
        task = tx.row(write.task_id)
        tx.execute(
            "DELETE FROM artifact_chunks WHERE task = ? AND artifact_id = ? AND version < ?",
            (task, chunk.artifact_id, chunk.version),
        )
        tx.execute(
            "INSERT INTO artifact_chunks VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            (task, chunk.artifact_id, chunk.version, chunk.position, body, raw),
        )

    return change


def put_message(write: PutMessage) -> Change:
    """Insert or replace an envelope; it keeps its place."""
    message_id = write.message.message_id
    body = rows.encode(write.message)

    def change(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO messages SELECT NULL, ?1, coalesce(max(position), 0) + 1, ?2, ?3"
            " FROM messages WHERE task = ?1"
            " ON CONFLICT (task, message_id) DO UPDATE SET body = excluded.body",
            (tx.row(write.task_id), message_id, body),
        )

    return change
