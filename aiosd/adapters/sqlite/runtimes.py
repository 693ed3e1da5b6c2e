"""Operations and instances on SQLite: their writes, their reads, and the port Runtimes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from aiosd.adapters.sqlite import rows
from aiosd.application.ports import CommitConflict
from aiosd.domain.instance import Instance
from aiosd.domain.operation import EventType, Operation, OperationEvent, OperationRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import apsw

    from aiosd.adapters.sqlite.readers import Readers
    from aiosd.adapters.sqlite.transaction import Change, Transaction
    from aiosd.application.ports import OperationQuery
    from aiosd.application.writes import AppendOperationEvents, PutInstance, PutOperation

#: The request never changes and has a column of its own.
_operation_body = make_dict_unstructure_fn(
    Operation, rows.CONVERTER, _cattrs_omit_if_default=True, request=override(omit=True)
)
_operation = make_dict_structure_fn(
    Operation,
    rows.CONVERTER,
    _cattrs_detailed_validation=False,
    request=override(omit=False, struct_hook=lambda value, _: value),
)


def _decode(body: bytes, request: OperationRequest) -> Operation:
    members: dict[str, Any] = orjson.loads(body)
    members["request"] = request
    return _operation(members, Operation)


# --- writes -----------------------------------------------------------------------------------


def put_operation(write: PutOperation) -> Change:
    """Insert or replace an operation."""
    operation, expected = write.operation, write.expected_revision
    body = orjson.dumps(_operation_body(operation))
    changing = (int(not operation.terminal), operation.end_time, operation.revision, body)
    if expected == 0:
        request = operation.request
        columns = (
            *(operation.id, request.principal, request.instance_id),
            *changing[:3],
            *(rows.encode(request), body),
        )

        def insert(tx: Transaction) -> None:
            tx.execute("INSERT INTO operations VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", columns)

        return insert

    def update(tx: Transaction) -> None:
        found = tx.execute(
            "UPDATE operations SET active = ?, end_time = ?, revision = ?, body = ?"
            " WHERE id = ? AND revision = ? RETURNING row",
            (*changing, operation.id, expected),
        ).get
        if found is None:
            raise CommitConflict(f"operation {operation.id} is no longer at revision {expected}")

    return update


def append_operation_events(write: AppendOperationEvents) -> Change:
    """Append to an operation's log."""
    events = [
        (one.sequence, one.time, one.type.value, orjson.dumps(_operation_body(one.snapshot)))
        for one in write.events
    ]

    def change(tx: Transaction) -> None:
        row = tx.execute("SELECT row FROM operations WHERE id = ?", (write.operation_id,)).get
        if row is None:
            raise CommitConflict(f"there is no operation {write.operation_id}")
        for event in events:
            tx.execute("INSERT INTO operation_events VALUES (?, ?, ?, ?, ?)", (row, *event))

    return change


def put_instance(write: PutInstance) -> Change:
    """Insert or replace an instance."""
    instance, expected = write.instance, write.expected_revision
    body = rows.encode(instance)

    def change(tx: Transaction) -> None:
        if expected == 0:
            columns = (instance.id, instance.revision, body)
            tx.execute("INSERT INTO instances VALUES (?, ?, ?)", columns)
            return
        found = tx.execute(
            "UPDATE instances SET revision = ?, body = ? WHERE id = ? AND revision = ?"
            " RETURNING revision",
            (instance.revision, body, instance.id, expected),
        ).get
        if found is None:
            raise CommitConflict(f"instance {instance.id} is no longer at revision {expected}")

    return change


def _forget(ended_before: int, limit: int, gone: list[int]) -> Change:
    def change(tx: Transaction) -> None:
        deleted: list[Any] = tx.execute(
            "DELETE FROM operations WHERE row IN (SELECT row FROM operations"
            " WHERE end_time > 0 AND end_time < ? ORDER BY end_time LIMIT ?) RETURNING row",
            (ended_before, limit),
        ).fetchall()
        gone[:] = [row for (row,) in deleted]

    return change


# --- reads ------------------------------------------------------------------------------------

_OPERATIONS = "SELECT request, body FROM operations"


def _rows(connection: apsw.Connection, sql: str, bindings: Sequence[Any]) -> list[Any]:
    return connection.execute(sql, bindings).fetchall()


def _operations(connection: apsw.Connection, rest: str, bindings: Sequence[Any]) -> list[Operation]:
    found = _rows(connection, f"{_OPERATIONS} {rest}", bindings)
    return [_decode(body, rows.decode(OperationRequest, request)) for request, body in found]


def _page(connection: apsw.Connection, query: OperationQuery) -> list[Operation]:
    wanted = ["TRUE"]
    bindings: list[Any] = []
    for clause, value in (
        ("principal = ?", query.principal),
        ("instance_id = ?", query.instance_id),
        ("id < ?", query.before),
    ):
        if value:
            wanted.append(clause)
            bindings.append(value)
    if query.active:
        wanted.append("active = 1")
    rest = f"WHERE {' AND '.join(wanted)} ORDER BY id DESC LIMIT ?"
    return _operations(connection, rest, (*bindings, query.limit))


def _events(
    connection: apsw.Connection, operation_id: str, after: int, limit: int
) -> list[OperationEvent]:
    found = _rows(
        connection,
        "SELECT sequence, time, type, operation_events.body, request FROM operation_events"
        " JOIN operations ON operations.row = operation WHERE id = ? AND sequence > ?"
        " ORDER BY sequence LIMIT ?",
        (operation_id, after, limit),
    )
    if not found:
        return []
    request = rows.decode(OperationRequest, found[0][4])
    return [
        OperationEvent(operation_id, sequence, time, EventType(kind), _decode(body, request))
        for sequence, time, kind, body, _ in found
    ]


def _instances(connection: apsw.Connection) -> list[Instance]:
    found = _rows(connection, "SELECT body FROM instances ORDER BY id", ())
    return [rows.decode(Instance, body) for (body,) in found]


class RuntimeReads:
    """The port Runtimes, for a store with readers and a writer."""

    _readers: Readers
    _commit: Callable[[Sequence[Change]], Any]

    async def operation(self, operation_id: str) -> Operation | None:
        """An operation by id."""
        ask = partial(_operations, rest="WHERE id = ?", bindings=(operation_id,))
        found = await self._readers.read(ask)
        return found[0] if found else None

    async def operations(self, query: OperationQuery) -> Sequence[Operation]:
        """A page of operations, newest first."""
        return await self._readers.read(partial(_page, query=query))

    async def active_operations(self) -> Sequence[Operation]:
        """Every operation that is not terminal, oldest first."""
        ask = partial(_operations, rest="WHERE active = 1 ORDER BY id", bindings=())
        return await self._readers.read(ask)

    async def operation_events(
        self, operation_id: str, after: int, limit: int
    ) -> Sequence[OperationEvent]:
        """Events numbered above `after` in order, at most `limit`."""
        ask = partial(_events, operation_id=operation_id, after=after, limit=limit)
        return await self._readers.read(ask)

    async def instances(self) -> Sequence[Instance]:
        """Every instance that ever attached, by id."""
        return await self._readers.read(_instances)

    async def forget_operations(self, ended_before: int, limit: int) -> int:
        """Delete the oldest terminal operations that ended before a time."""
        gone: list[int] = []
        await self._commit([_forget(ended_before, limit, gone)])
        return len(gone)
