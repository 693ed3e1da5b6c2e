"""Lists of tasks: which index serves a query, and the SQL that walks it.

A list is a merge of streams. A stream is a range of one index in which the sort column follows
columns that are fixed, so it is read in order and left after a page; one stream for each owner,
and for each state or capability where these are filtered. Only where the counts say that few tasks
match is it cheaper to fetch them all and sort.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from aiosd.adapters.glob import matches
from aiosd.adapters.sqlite import rows
from aiosd.adapters.sqlite.queries import TASKS
from aiosd.application.ports import TaskOrder, TaskPage, TaskQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    import apsw

    from aiosd.adapters.sqlite.changes import CountKey
    from aiosd.domain.state import TaskState

#: Beyond this, merging costs more than walking.
MAX_STREAMS: Final = 64
#: Fetch and sort when at most one task in this many matches.
SPARSE: Final = 16

_WALKS = {
    TaskOrder.CREATE_TIME: "tasks_create_time",
    TaskOrder.STATE_TIME: "tasks_state_time",
    TaskOrder.START_TIME: "tasks_start_time",
    TaskOrder.UPDATE_TIME: "tasks_update_time",
    TaskOrder.PRIORITY: "tasks_priority",
}
_STATE_WALKS = {
    TaskOrder.CREATE_TIME: "tasks_state_create_time",
    TaskOrder.STATE_TIME: "tasks_state_state_time",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Which tasks a query is about, as far as the counts know them.

    `capabilities` None means that they are not filtered; `total` is the number of tasks in scope,
    `owned` that of the principals' tasks whatever their state and capability.
    """

    principals: tuple[str, ...]
    capabilities: tuple[str, ...] | None
    total: int
    owned: int


def scope(query: TaskQuery, counts: Mapping[CountKey, int]) -> Scope:
    """Resolve the pattern of capabilities and the absent filter of owners."""
    owned = total = 0
    principals = set()
    capabilities = set()
    for (principal, capability_id, state), n in counts.items():
        if n <= 0 or (query.principals and principal not in query.principals):
            continue
        owned += n
        if query.capability and not matches(query.capability, capability_id):
            continue
        capabilities.add(capability_id)
        if query.states and state not in query.states:
            continue
        principals.add(principal)
        total += n
    return Scope(
        tuple(sorted(principals)),
        tuple(sorted(capabilities)) if query.capability else None,
        total,
        owned,
    )


@dataclass(slots=True)
class _Conditions:
    """Terms of a WHERE clause and what is bound to them."""

    terms: list[str]
    bindings: list[Any]

    def add(self, term: str, *bindings: Any) -> None:
        self.terms.append(term)
        self.bindings += bindings

    def among(self, column: str, values: tuple[Any, ...]) -> None:
        """The column is one of the values."""
        if len(values) == 1:
            self.add(f"{column} = ?", values[0])
        else:
            self.add(f"{column} IN ({', '.join('?' * len(values))})", *values)

    def __str__(self) -> str:
        return " AND ".join(self.terms) or "1"


def page(connection: apsw.Connection, query: TaskQuery, within: Scope) -> TaskPage:
    """The page, and the total if it is asked for."""
    if not within.total:
        return TaskPage((), 0, False)
    direction = "ASC" if query.ascending else "DESC"
    order = f"{query.order} {direction}, id {direction}"
    wanted = query.skip + query.limit + 1
    streams = _streams(query, within)
    bindings = [value for _, where in streams for value in where.bindings]
    listed = " UNION ALL ".join(
        f"SELECT * FROM (SELECT row, {query.order}, id FROM tasks{by} WHERE {where}"  # noqa: S608
        f" ORDER BY {order} LIMIT {wanted:d})"
        for by, where in streams
    )
    page_of = f"{TASKS.replace('FROM tasks', 'FROM listed JOIN tasks USING (row)')}"
    sql = (
        f"WITH listed AS MATERIALIZED (SELECT * FROM ({listed})"  # noqa: S608
        f" ORDER BY {order} LIMIT {query.limit + 1:d} OFFSET {query.skip:d})"
        f" {page_of} ORDER BY tasks.{query.order} {direction}, tasks.id {direction}"
    )
    found = connection.execute(sql, bindings).fetchall()
    tasks = tuple(rows.task_of(row) for row in found[: query.limit])
    total = _total(connection, query, within) if query.count else 0
    return TaskPage(tasks, total, len(found) > query.limit)


def _streams(query: TaskQuery, within: Scope) -> list[tuple[str, _Conditions]]:
    """Index and conditions of each stream."""
    capabilities = within.capabilities
    if query.context_id:
        alone = _filters(query, within, states=True, capabilities=True)
        if query.principals:
            alone.among("principal", within.principals)
        return [(" INDEXED BY tasks_context", alone)]
    sparse = within.total * SPARSE <= within.owned
    states = tuple(dict.fromkeys(query.states))
    fixed: tuple[TaskState | str, ...]
    if states and (sparse or query.order in _STATE_WALKS):
        index = _STATE_WALKS.get(query.order, "tasks_state_create_time")
        fixed, column, filters = states, "state", {"capabilities": True}
    elif capabilities and sparse:
        index = "tasks_capability"
        fixed, column, filters = capabilities, "capability_id", {"states": True}
    else:
        index = _WALKS[query.order]
        fixed, column, filters = (), "", {"states": True, "capabilities": True}
    streams: list[tuple[str, _Conditions]] = []
    for principal, value in product(within.principals, fixed or (None,)):
        where = _filters(query, within, **filters)
        where.add("principal = ?", principal)
        if value is not None:
            where.add(f"{column} = ?", value)
        streams.append((f" INDEXED BY {index}", where))
    if len(streams) <= MAX_STREAMS:
        return streams
    alone = _filters(query, within, states=True, capabilities=True)
    if query.principals:
        alone.among("principal", within.principals)
    return [("", alone)]


def _filters(
    query: TaskQuery, within: Scope, *, states: bool = False, capabilities: bool = False
) -> _Conditions:
    """What a stream must check row by row, and where it begins."""
    where = _Conditions([], [])
    if query.context_id:
        where.add("context_id = ?", query.context_id)
    if states and query.states:
        where.among("state", tuple(query.states))
    if capabilities and within.capabilities is not None:
        where.among("capability_id", within.capabilities)
    if query.created_since:
        where.add("create_time >= ?", query.created_since)
    if query.created_until:
        where.add("create_time <= ?", query.created_until)
    if query.state_since:
        where.add("state_time >= ?", query.state_since)
    if query.after is not None:
        where.add(f"({query.order}, id) {'>' if query.ascending else '<'} (?, ?)", *query.after)
    return where


def _total(connection: apsw.Connection, query: TaskQuery, within: Scope) -> int:
    """From the counts where they know it, else counted on an index; `after` does not matter."""
    timed = query.created_since or query.created_until or query.state_since
    if not timed and not query.context_id:
        return within.total
    where = _filters(
        TaskQuery(
            context_id=query.context_id,
            states=query.states,
            created_since=query.created_since,
            created_until=query.created_until,
            state_since=query.state_since,
        ),
        within,
        states=True,
        capabilities=True,
    )
    if query.principals:
        where.among("principal", within.principals)
    sql = f"SELECT count(*) FROM tasks WHERE {where}"  # noqa: S608 - terms are ours, values bound
    return int(connection.execute(sql, where.bindings).get)


def states_of(counts: Mapping[CountKey, int]) -> Counter[int]:
    """How many tasks are in each state."""
    totals: Counter[int] = Counter()
    for (_, _, state), n in counts.items():
        totals[state] += n
    return totals
