"""Reads that somebody waits for walk an index: they cost the same beside a million tasks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from aiosd.adapters.sqlite import SqliteStore, listing, queries
from aiosd.application.ports import TaskOrder, TaskQuery
from aiosd.domain.state import TaskState
from tests.contract.builders import NOW, a_task, put

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

MANY = 1_000_000
#: Many tasks, as far as the choice of an index is concerned.
COUNTS = {("owner", "test.echo", int(state)): MANY // 9 for state in TaskState if state != 1} | {
    ("owner", "test.rare", 1): 3
}


@pytest.fixture
async def connection(path: Path) -> AsyncIterator[apsw.Connection]:
    store = SqliteStore.open(path)
    await store.commit([put(a_task(n, state=TaskState(1 + n % 9))) for n in range(50)])
    await store.close()
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def plan(connection: apsw.Connection, ask: Callable[[apsw.Connection], Any]) -> list[str]:
    """The steps of every statement that is run."""
    statements: list[tuple[str, Any]] = []

    def note(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
        statements.append((sql, bindings))
        return True

    connection.exec_trace = note
    ask(connection)
    connection.exec_trace = None
    return [
        row[3]
        for sql, bindings in statements
        for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)
    ]


def scans(steps: list[str]) -> list[str]:
    """Steps that read a whole table, or sort what they read."""
    return [
        step
        for step in steps
        if (step.startswith("SCAN") and "listed" not in step and "SUBQUERY" not in step.upper())
        or step == "USE TEMP B-TREE FOR ORDER BY"
    ]


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: queries.task(db, "task-1"),
        lambda db: queries.queued(db, "test.echo", 10),
        lambda db: queries.due(db, NOW, 10),
        lambda db: queries.expired(db, NOW, 10),
        lambda db: queries.events(db, "task-1", 0, 10),
        lambda db: queries.history(db, "task-1"),
        lambda db: queries.messages(db, "task-1", 0, 10),
        lambda db: queries.chunks(db, "task-1", "art-1", 0, 10),
        lambda db: queries.idempotency_key(db, "owner", "CreateTask", "k"),
        lambda db: queries.subscription(db, "sub-1"),
    ],
    ids=lambda ask: ask.__code__.co_names[1],
)
def test_a_read_walks_an_index(
    connection: apsw.Connection, ask: Callable[[apsw.Connection], Any]
) -> None:
    steps = plan(connection, ask)
    assert steps
    assert scans(steps) == []


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("states", [(), (TaskState.COMPLETED, TaskState.FAILED)])
@pytest.mark.parametrize("order", TaskOrder)
@pytest.mark.parametrize("after", [None, (NOW, "task-1")])
def test_a_list_of_many_walks_an_index(
    connection: apsw.Connection,
    order: TaskOrder,
    states: tuple[TaskState, ...],
    ascending: bool,
    after: tuple[int, str] | None,
) -> None:
    query = TaskQuery(order=order, states=states, ascending=ascending, after=after, count=True)
    within = listing.scope(query, COUNTS)
    steps = plan(connection, lambda db: listing.page(db, query, within))
    walks = [step for step in steps if "USING INDEX" in step or "USING COVERING INDEX" in step]
    expected = {
        TaskOrder.CREATE_TIME: "tasks_state " if states else "tasks_create_time ",
        TaskOrder.STATE_TIME: "tasks_state_time ",
        TaskOrder.START_TIME: "tasks_start_time ",
        TaskOrder.UPDATE_TIME: "tasks_update_time ",
        TaskOrder.PRIORITY: "tasks_priority ",
    }[order]
    assert any(expected in step for step in walks)
    assert not any(step.startswith("SCAN tasks") for step in steps)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (TaskQuery(capability="*rare"), "tasks_capability"),
        (TaskQuery(states=(TaskState.SUBMITTED,), order=TaskOrder.START_TIME), "tasks_state"),
        (TaskQuery(context_id="ctx-1"), "tasks_context"),
    ],
)
def test_a_few_among_many_are_fetched_by_what_they_have_in_common(
    connection: apsw.Connection, query: TaskQuery, index: str
) -> None:
    within = listing.scope(query, COUNTS)
    steps = plan(connection, lambda db: listing.page(db, query, within))
    assert any(f"USING INDEX {index} " in step for step in steps), steps


def test_no_index_is_there_for_nothing(connection: apsw.Connection) -> None:
    """Every index of tasks serves some read of this module."""
    asked: list[str] = []
    for order, states, capability, context in itertools.product(
        TaskOrder, ((), (TaskState.FAILED,)), ("", "*rare"), ("", "ctx-1")
    ):
        query = TaskQuery(order=order, states=states, capability=capability, context_id=context)
        within = listing.scope(query, COUNTS)
        asked += plan(connection, lambda db, q=query, w=within: listing.page(db, q, w))  # type: ignore[misc]
    asked += plan(connection, lambda db: queries.queued(db, "test.echo", 1))
    asked += plan(connection, lambda db: queries.due(db, NOW, 1))
    asked += plan(connection, lambda db: queries.expired(db, NOW, 1))
    asked += plan(connection, lambda db: queries.open_tasks(db))
    names = connection.execute(
        "SELECT name FROM sqlite_schema"
        " WHERE type = 'index' AND tbl_name = 'tasks' AND sql NOT NULL"
    ).fetchall()
    unused = [name for (name,) in names if not any(f"INDEX {name}" in step for step in asked)]
    assert unused == []
