"""Reads as SQL. Each takes a connection and returns finished values; none leaves a cursor open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosd.adapters.sqlite import rows
from aiosd.application.ports import ArtifactRecord
from aiosd.application.writes import ClientSession, IdempotencyKey, Subscription
from aiosd.domain.artifact import StoredChunk
from aiosd.domain.capability import Capability
from aiosd.domain.content import Message
from aiosd.domain.task import StateChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from aiosd.domain.artifact import Artifact
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task

_COLUMNS = ", ".join(f"tasks.{name}" for name in rows.TASK_COLUMNS)
#: All that `rows.task_of` needs; the caller adds where the rows come from.
TASKS = f"""
    SELECT {_COLUMNS}, tasks.body, task_requests.body, task_checkpoints.body FROM tasks
    JOIN task_requests ON task_requests.task = tasks.row
    LEFT JOIN task_checkpoints ON task_checkpoints.task = tasks.row
"""  # noqa: S608 - names of columns, no input


def _rows(connection: apsw.Connection, sql: str, bindings: Sequence[Any]) -> list[Any]:
    return connection.execute(sql, bindings).fetchall()


def task(connection: apsw.Connection, task_id: str) -> Task | None:
    """A task by id."""
    found = _rows(connection, f"{TASKS} WHERE tasks.id = ?", (task_id,))
    return rows.task_of(found[0]) if found else None


def queued(connection: apsw.Connection, capability_id: str, limit: int) -> list[Task]:
    """SUBMITTED tasks of a capability, the next one to start first."""
    found = _rows(
        connection,
        f"{TASKS} WHERE tasks.state = 1 AND tasks.capability_id = ?"
        " ORDER BY tasks.priority DESC, tasks.create_time, tasks.id LIMIT ?",
        (capability_id, limit),
    )
    return [rows.task_of(row) for row in found]


def open_tasks(connection: apsw.Connection) -> list[Task]:
    """Tasks that are neither terminal nor SUBMITTED, by id."""
    # Named, or SQLite walks all tasks there are in the order of their ids.
    found = _rows(
        connection,
        f"{TASKS.replace('FROM tasks', 'FROM tasks INDEXED BY tasks_open')}"
        " WHERE tasks.ended = 0 AND tasks.state > 1 ORDER BY tasks.id",
        (),
    )
    return [rows.task_of(row) for row in found]


def due(connection: apsw.Connection, until: int, limit: int) -> list[tuple[int, str]]:
    """Due times and ids of open tasks, soonest first."""
    return _rows(
        connection,
        "SELECT due_time, id FROM tasks WHERE due_time > 0 AND due_time <= ?"
        " ORDER BY due_time, id LIMIT ?",
        (until, limit),
    )


def expired(connection: apsw.Connection, ended_before: int, limit: int) -> list[str]:
    """Ids of terminal tasks, those that ended first first."""
    found = _rows(
        connection,
        "SELECT id FROM tasks WHERE end_time > 0 AND end_time < ? ORDER BY end_time, id LIMIT ?",
        (ended_before, limit),
    )
    return [task_id for (task_id,) in found]


def events(connection: apsw.Connection, task_id: str, after: int, limit: int) -> list[Event]:
    """Events numbered above `after`."""
    found = _rows(
        connection,
        "SELECT sequence, time, kind, body FROM events"
        " WHERE task = (SELECT row FROM tasks WHERE id = ?) AND sequence > ?"
        " ORDER BY sequence LIMIT ?",
        (task_id, after, limit),
    )
    return [rows.event_of(task_id, *row) for row in found]


def history(connection: apsw.Connection, task_id: str) -> list[StateChange]:
    """Every state change."""
    found = _rows(
        connection,
        "SELECT body FROM state_changes WHERE task = (SELECT row FROM tasks WHERE id = ?)"
        " ORDER BY sequence",
        (task_id,),
    )
    return [rows.decode(StateChange, body) for (body,) in found]


def messages(connection: apsw.Connection, task_id: str, skip: int, limit: int) -> list[Message]:
    """Envelopes in order of their first insertion."""
    found = _rows(
        connection,
        "SELECT body FROM messages WHERE task = (SELECT row FROM tasks WHERE id = ?)"
        " ORDER BY position LIMIT ? OFFSET ?",
        (task_id, limit, skip),
    )
    return [rows.decode(Message, body) for (body,) in found]


ARTIFACTS = """
    SELECT artifacts.body, (SELECT group_concat(digest, ' ' ORDER BY position)
    FROM artifact_digests WHERE artifact = artifacts.row), tasks.id
    FROM artifacts JOIN tasks ON tasks.row = artifacts.task
"""


def _artifact(body: bytes, digests: str | None) -> Artifact:
    return rows.artifact_of(body, digests.split(" ") if digests is not None else ())


def artifacts(connection: apsw.Connection, task_id: str) -> list[Artifact]:
    """Artifacts in order of their first insertion."""
    found = _rows(
        connection,
        f"{ARTIFACTS} WHERE tasks.id = ? ORDER BY artifacts.row",
        (task_id,),
    )
    return [_artifact(body, digests) for body, digests, _ in found]


def find_artifact(
    connection: apsw.Connection, artifact_id: str, principals: Sequence[str], task_id: str
) -> ArtifactRecord | None:
    """The newest by create time, then by task id."""
    wanted = ["artifact_id = ?"]
    bindings = [artifact_id]
    if principals:
        wanted.append(f"tasks.principal IN ({', '.join('?' * len(principals))})")
        bindings += principals
    if task_id:
        wanted.append("tasks.id = ?")
        bindings.append(task_id)
    found = _rows(
        connection,
        f"{ARTIFACTS} WHERE {' AND '.join(wanted)}"
        " ORDER BY artifacts.create_time DESC, tasks.id DESC LIMIT 1",
        bindings,
    )
    if not found:
        return None
    body, digests, owner = found[0]
    return ArtifactRecord(owner, _artifact(body, digests))


def chunks(
    connection: apsw.Connection, task_id: str, artifact_id: str, position: int, limit: int
) -> list[StoredChunk]:
    """Chunks of the newest version from a position on."""
    found = _rows(
        connection,
        "WITH these AS (SELECT * FROM artifact_chunks"
        " WHERE task = (SELECT row FROM tasks WHERE id = ?1) AND artifact_id = ?2)"
        " SELECT version, position, body, raw FROM these"
        " WHERE version = (SELECT max(version) FROM these) AND position >= ?3"
        " ORDER BY position LIMIT ?4",
        (task_id, artifact_id, position, limit),
    )
    return [
        StoredChunk(artifact_id, version, at, rows.parts_of(body, raw))
        for version, at, body, raw in found
    ]


def capabilities(connection: apsw.Connection) -> list[Capability]:
    """All that were ever offered, by id."""
    found = _rows(connection, "SELECT body FROM capabilities ORDER BY id", ())
    return [rows.decode(Capability, body) for (body,) in found]


def idempotency_key(
    connection: apsw.Connection, principal: str, method: str, key: str
) -> IdempotencyKey | None:
    """What a key stands for."""
    found = _rows(
        connection,
        "SELECT principal, method, key, fingerprint, target, create_time FROM idempotency_keys"
        " WHERE principal = ? AND method = ? AND key = ?",
        (principal, method, key),
    )
    return IdempotencyKey(*found[0]) if found else None


def subscription(connection: apsw.Connection, subscription_id: str) -> Subscription | None:
    """A subscription by id."""
    found = _rows(connection, "SELECT body FROM subscriptions WHERE id = ?", (subscription_id,))
    return rows.decode(Subscription, found[0][0]) if found else None


def client_session(connection: apsw.Connection, session_id: str) -> ClientSession | None:
    """A client session by id."""
    found = _rows(connection, "SELECT body FROM client_sessions WHERE id = ?", (session_id,))
    return rows.decode(ClientSession, found[0][0]) if found else None
