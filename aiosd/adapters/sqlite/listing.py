"""Lists of tasks: which indexes serve a query, and the SQL that walks them.

A list is a merge of streams. A stream is a range of one index that is read in order and left after
a page: the columns before the one that is sorted by are fixed, so there is a stream for each owner,
and for each state where these are filtered. Tasks that are few are fetched and sorted instead: the
open ones, and those of a filter that hardly any task passes, which the counts tell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from aiosd.adapters.glob import matches
from aiosd.adapters.sqlite import rows
from aiosd.adapters.sqlite.queries import TASKS
from aiosd.application.ports import TaskOrder, TaskPage, TaskQuery
from aiosd.domain.state import TERMINAL, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import apsw

    from aiosd.adapters.sqlite.transaction import CountKey

#: Beyond this, merging costs more than sorting everything.
MAX_STREAMS: Final = 64

_OPEN = tuple(state for state in TaskState if state not in TERMINAL)
_ENDED = tuple(sorted(TERMINAL))
_ENDED_INDEXES = {
    TaskOrder.STATE_TIME: "tasks_state_time",
    TaskOrder.START_TIME: "tasks_start_time",
    TaskOrder.UPDATE_TIME: "tasks_update_time",
    TaskOrder.PRIORITY: "tasks_priority",
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
    named = tuple(sorted(capabilities)) if query.capability else None
    return Scope(tuple(sorted(principals)), named, total, owned)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A range of an index; `states` empty and `principal` None are not filtered."""

    index: str
    states: tuple[TaskState, ...]
    principal: str | None = None


class _Conditions:
    """Terms of a WHERE clause and what is bound to them."""

    def __init__(self) -> None:
        self.terms: list[str] = []
        self.bindings: list[Any] = []

    def add(self, term: str, *bindings: Any) -> None:
        self.terms.append(term)
        self.bindings += bindings

    def among(self, column: str, values: Sequence[Any]) -> None:
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
    streams = []
    bindings: list[Any] = []
    for stream in _streams(query, within):
        where = _conditions(query, within, stream)
        by = f"INDEXED BY {stream.index}" if stream.index else ""
        streams.append(
            f"SELECT * FROM (SELECT row, {query.order}, id FROM tasks {by} WHERE {where}"  # noqa: S608
            f" ORDER BY {order} LIMIT {wanted:d})"
        )
        bindings += where.bindings
    sql = (
        f"WITH listed AS MATERIALIZED (SELECT * FROM ({' UNION ALL '.join(streams)})"  # noqa: S608
        f" ORDER BY {order} LIMIT {query.limit + 1:d} OFFSET {query.skip:d})"
        f" {TASKS.replace('FROM tasks', 'FROM listed JOIN tasks USING (row)')}"
        f" ORDER BY tasks.{query.order} {direction}, tasks.id {direction}"
    )
    found = connection.execute(sql, bindings).fetchall()
    tasks = tuple(rows.task_of(row) for row in found[: query.limit])
    total = _total(connection, query, within) if query.count else 0
    return TaskPage(tasks, total, len(found) > query.limit)


def _streams(query: TaskQuery, within: Scope) -> list[_Stream]:
    """Streams that cover every task of the query once."""
    if query.context_id:
        return [_Stream("tasks_context", query.states)]
    by_state = [(state,) for state in dict.fromkeys(query.states)]
    if _few(query, within):
        index = "tasks_state" if query.states else "tasks_capability"
        streams = _by_owner(index, within, [query.states])
    elif query.order is TaskOrder.CREATE_TIME:
        index = "tasks_state" if query.states else "tasks_create_time"
        streams = _by_owner(index, within, by_state or [()])
    else:
        open_ones = [state for state in _OPEN if state in query.states or not query.states]
        ended = [state for state in _ENDED if state in query.states or not query.states]
        apart = query.order is TaskOrder.STATE_TIME
        groups = [(state,) for state in ended] if apart else [tuple(ended)] if ended else []
        streams = _by_owner("tasks_state", within, [tuple(open_ones)] if open_ones else [])
        streams += _by_owner(_ENDED_INDEXES[query.order], within, groups)
    return streams if len(streams) <= MAX_STREAMS else [_Stream("", query.states)]


def _few(query: TaskQuery, within: Scope) -> bool:
    """Whether fetching all that match costs less than walking past what does not.

    A walk passes owned / total tasks for each one that it keeps.
    """
    if not query.states and within.capabilities is None:
        return False
    wanted = query.skip + query.limit + 1
    return within.total * within.total <= wanted * within.owned


def _by_owner(index: str, within: Scope, groups: Iterable[tuple[TaskState, ...]]) -> list[_Stream]:
    return [_Stream(index, group, principal) for group in groups for principal in within.principals]


def _conditions(query: TaskQuery, within: Scope, stream: _Stream) -> _Conditions:
    """What holds for a stream's tasks, and where it begins."""
    where = _filters(query, within, stream.states)
    if stream.principal is not None:
        where.add("principal = ?", stream.principal)
    elif query.principals:
        where.among("principal", within.principals)
    if stream.index in _ENDED_INDEXES.values():
        where.add("ended = 1")  # SQLite does not work out that the state implies it
    if query.after is not None:
        where.add(f"({query.order}, id) {'>' if query.ascending else '<'} (?, ?)", *query.after)
    return where


def _filters(query: TaskQuery, within: Scope, states: tuple[TaskState, ...]) -> _Conditions:
    where = _Conditions()
    if states:
        where.among("state", states)
    if within.capabilities is not None:
        where.among("capability_id", within.capabilities)
    if query.context_id:
        where.add("context_id = ?", query.context_id)
    if query.created_since:
        where.add("create_time >= ?", query.created_since)
    if query.created_until:
        where.add("create_time <= ?", query.created_until)
    if query.state_since:
        where.add("state_time >= ?", query.state_since)
    return where


def _total(connection: apsw.Connection, query: TaskQuery, within: Scope) -> int:
    """From the counts where they know it, else counted on an index; the cursor does not matter."""
    if not (query.created_since or query.created_until or query.state_since or query.context_id):
        return within.total
    where = _conditions(replace(query, after=None), within, _Stream("", query.states))
    sql = f"SELECT count(*) FROM tasks WHERE {where}"  # noqa: S608 - terms are ours, values bound
    return int(connection.execute(sql, where.bindings).get)


def states_of(counts: Mapping[CountKey, int]) -> Counter[int]:
    """How many tasks are in each state."""
    totals: Counter[int] = Counter()
    for (_, _, state), n in counts.items():
        totals[state] += n
    return totals
