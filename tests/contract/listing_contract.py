"""What every store promises about queues, timers, lists and totals."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from aiosd.application.ports import TaskOrder, TaskQuery
from aiosd.domain.state import TERMINAL, TaskState
from aiosd.domain.task import Priority
from tests.contract.builders import NOW, a_task, put, update

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiosd.domain.task import Task
    from tests.contract.store_contract import AnyStore

_KEYS: dict[TaskOrder, Callable[[Task], int]] = {
    TaskOrder.CREATE_TIME: lambda task: task.create_time,
    TaskOrder.START_TIME: lambda task: task.start_time,
    TaskOrder.UPDATE_TIME: lambda task: task.update_time,
    TaskOrder.PRIORITY: lambda task: task.options.priority,
    TaskOrder.STATE_TIME: lambda task: task.state_time,
}


def ids(tasks: Sequence[Task]) -> list[int]:
    return [int(task.id.removeprefix("task-"), 16) for task in tasks]


class QueueContract:
    """What runs next, what is open, what is due, what has expired."""

    @pytest.mark.req("R089", "R090")
    async def test_the_queue_is_by_priority_then_time_then_id(self, store: AnyStore) -> None:
        tasks = [
            a_task(1, at=NOW + 5),
            a_task(2, at=NOW),
            a_task(4, at=NOW, priority=Priority.LOW),
            a_task(5, at=NOW + 9, priority=Priority.URGENT),
            a_task(3, at=NOW),
            a_task(6, at=NOW, priority=Priority.HIGH),
            a_task(7, at=NOW, capability="test.other"),
            a_task(8, at=NOW, state=TaskState.WORKING),
        ]
        await store.commit([put(task) for task in tasks])
        assert ids(await store.queued("test.echo", 100)) == [5, 6, 2, 3, 1, 4]
        assert ids(await store.queued("test.echo", 2)) == [5, 6]
        assert ids(await store.queued("test.*", 100)) == []
        await store.commit([update(tasks[3], state=TaskState.WORKING)])
        assert ids(await store.queued("test.echo", 2)) == [6, 2]

    async def test_open_tasks_are_neither_terminal_nor_submitted(self, store: AnyStore) -> None:
        await store.commit([put(a_task(state, state=state)) for state in TaskState])
        found = {task.state for task in await store.open_tasks()}
        assert found == set(TaskState) - TERMINAL - {TaskState.SUBMITTED}

    @pytest.mark.req("I48")
    async def test_due_tasks_come_soonest_first(self, store: AnyStore) -> None:
        later = a_task(1, at=NOW, deadline_ms=200)
        sooner = a_task(2, at=NOW, deadline_ms=100, state=TaskState.PAUSED)
        same = a_task(3, at=NOW, deadline_ms=100)
        untimed, over = a_task(4, at=NOW), a_task(5, at=NOW, deadline_ms=1, state=TaskState.FAILED)
        await store.commit([put(task) for task in (later, sooner, same, untimed, over)])
        assert list(await store.due(NOW + 99, 10)) == []
        expected = [(NOW + 100, sooner.id), (NOW + 100, same.id), (NOW + 200, later.id)]
        assert list(await store.due(NOW + 200, 10)) == expected
        assert list(await store.due(NOW + 200, 2)) == expected[:2]
        await store.commit([update(sooner, state=TaskState.CANCELED, end_time=NOW)])
        assert list(await store.due(NOW + 200, 10)) == expected[1:]

    async def test_expired_tasks_come_oldest_first(self, store: AnyStore) -> None:
        ended = [
            a_task(n, state=state, end_time=NOW - n)
            for n, state in enumerate((*TERMINAL, TaskState.COMPLETED), start=1)
        ]
        await store.commit([put(task) for task in (*ended, a_task(99))])
        by_age = [task.id for task in reversed(ended)]
        assert list(await store.expired(NOW, 10)) == by_age
        assert list(await store.expired(NOW - 1, 10)) == by_age[:-1]
        assert list(await store.expired(NOW, 2)) == by_age[:2]

    async def test_states_are_counted(self, store: AnyStore) -> None:
        tasks = [a_task(n, state=TaskState.WORKING) for n in range(5)]
        await store.commit([put(task) for task in tasks])
        await store.commit([update(tasks[0], state=TaskState.FAILED, end_time=NOW)])
        assert await store.count(TaskState.WORKING) == 4
        assert await store.count(TaskState.FAILED) == 1
        await store.forget([tasks[0].id], 0)
        assert await store.count(TaskState.FAILED) == 0


class ListContract:
    """Pages: filters, orders, ties and totals."""

    async def test_the_newest_task_comes_first(self, store: AnyStore) -> None:
        await store.commit([put(a_task(n)) for n in (2, 3, 1)])
        page = await store.tasks(TaskQuery())
        assert ids(page.tasks) == [3, 2, 1]
        assert (page.total, page.more) == (0, False)

    @pytest.mark.parametrize("order", TaskOrder)
    @pytest.mark.parametrize("ascending", [True, False])
    @pytest.mark.parametrize("states", [(), (TaskState.WORKING, TaskState.COMPLETED)])
    async def test_pages_after_a_cursor_join_to_the_whole_list(
        self, store: AnyStore, order: TaskOrder, ascending: bool, states: tuple[TaskState, ...]
    ) -> None:
        tasks = _various()
        await store.commit([put(task) for task in tasks])
        key = _KEYS[order]
        wanted = [task for task in tasks if not states or task.state in states]
        wanted.sort(key=lambda task: (key(task), task.id), reverse=not ascending)
        collected: list[Task] = []
        after = None
        for _ in range(len(wanted)):
            query = TaskQuery(
                states=states, order=order, ascending=ascending, limit=4, after=after, count=True
            )
            page = await store.tasks(query)
            assert page.total == len(wanted)
            collected += page.tasks
            if not page.more:
                break
            assert len(page.tasks) == 4
            after = (key(collected[-1]), collected[-1].id)
        assert ids(collected) == ids(wanted)

    @pytest.mark.req("R023", "R024")
    async def test_skipping_joins_to_the_whole_list(self, store: AnyStore) -> None:
        tasks = _various()
        await store.commit([put(task) for task in tasks])
        pages = [
            await store.tasks(TaskQuery(limit=5, skip=skip, count=True))
            for skip in range(0, len(tasks) + 5, 5)
        ]
        whole = await store.tasks(TaskQuery(limit=len(tasks)))
        assert [task for page in pages for task in page.tasks] == list(whole.tasks)
        assert {page.total for page in pages} == {len(tasks)}
        assert [page.more for page in pages] == [
            page_end < len(tasks) for page_end in range(5, len(tasks) + 10, 5)
        ]
        assert not whole.more

    async def test_a_cursor_and_a_skip_add_up(self, store: AnyStore) -> None:
        await store.commit([put(a_task(n)) for n in range(1, 8)])
        page = await store.tasks(TaskQuery(after=(NOW + 6, a_task(6).id), skip=2, limit=2))
        assert ids(page.tasks) == [3, 2]
        assert page.more

    async def test_a_page_of_none_still_tells_the_total(self, store: AnyStore) -> None:
        await store.commit([put(a_task(n)) for n in range(3)])
        page = await store.tasks(TaskQuery(limit=0, count=True))
        assert (len(page.tasks), page.total, page.more) == (0, 3, True)

    async def test_filters_are_joined_by_and(self, store: AnyStore) -> None:
        tasks = _various()
        await store.commit([put(task) for task in tasks])
        choices = itertools.product(
            ((), ("owner",), ("owner", "other"), ("nobody",)),
            ((), (TaskState.WORKING,), (TaskState.WORKING, TaskState.FAILED)),
            ("", "test.echo", "test.*", "*"),
            (0, NOW + 10),
            (0, NOW + 20),
        )
        for principals, states, capability, since, until in choices:
            page = await store.tasks(
                TaskQuery(
                    principals=principals,
                    states=states,
                    capability=capability,
                    created_since=since,
                    created_until=until,
                    limit=100,
                    count=True,
                )
            )
            wanted = [
                task
                for task in tasks
                if (not principals or task.principal in principals)
                and (not states or task.state in states)
                and (capability != "test.echo" or task.request.capability_id == capability)
                and task.create_time >= since
                and (not until or task.create_time <= until)
            ]
            assert sorted(ids(page.tasks)) == sorted(ids(wanted))
            assert page.total == len(wanted)
            assert not page.more

    async def test_bounds_of_time_are_inclusive(self, store: AnyStore) -> None:
        await store.commit([put(a_task(n, state_time=NOW - n)) for n in range(1, 6)])
        page = await store.tasks(TaskQuery(created_since=NOW + 2, created_until=NOW + 4))
        assert ids(page.tasks) == [4, 3, 2]
        page = await store.tasks(
            TaskQuery(state_since=NOW - 3, order=TaskOrder.STATE_TIME, count=True)
        )
        assert ids(page.tasks) == [1, 2, 3]
        assert page.total == 3

    async def test_a_context_has_its_own_tasks(self, store: AnyStore) -> None:
        tasks = [a_task(n, context_id=f"ctx-{n % 2}") for n in range(6)]
        await store.commit([put(task) for task in tasks])
        page = await store.tasks(TaskQuery(context_id="ctx-1", limit=2, count=True))
        assert ids(page.tasks) == [5, 3]
        assert (page.total, page.more) == (3, True)
        page = await store.tasks(TaskQuery(context_id="ctx-1", principals=("other",), count=True))
        assert (page.tasks, page.total) == ((), 0)

    @pytest.mark.req("R022")
    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*", {0, 1, 2, 3, 4}),
            ("a.b", {0}),
            ("a.*", {0, 2}),
            ("*.b", {0}),
            ("a*b", {0, 1}),
            ("a_b", {1}),
            ("a?b", set()),
            ("a.[bc]", set()),
            ("a%", set()),
            ("*a*b*", {0, 1, 2, 3, 4}),
            ("", {0, 1, 2, 3, 4}),
            ("**", {0, 1, 2, 3, 4}),
            ("A.B", set()),
            ("a.b*b", set()),
            ("*-*", {4}),
        ],
    )
    async def test_only_the_star_is_special_in_a_capability(
        self, store: AnyStore, pattern: str, found: set[int]
    ) -> None:
        names = ["a.b", "a_b", "a.bc", "xa.yb.z", "a-b.c"]
        await store.commit([put(a_task(n, capability=name)) for n, name in enumerate(names)])
        page = await store.tasks(TaskQuery(capability=pattern, count=True))
        assert set(ids(page.tasks)) == found
        assert page.total == len(found)

    async def test_a_few_among_many_are_found_in_order(self, store: AnyStore) -> None:
        tasks = [a_task(n, capability="test.many", state=TaskState.COMPLETED) for n in range(200)]
        rare = [a_task(1000 + n, capability="test.rare", at=NOW + 50 * n) for n in range(4)]
        await store.commit([put(task) for task in (*tasks, *rare)])
        for order, query in itertools.product(
            TaskOrder,
            (TaskQuery(capability="*rare"), TaskQuery(states=(TaskState.SUBMITTED,))),
        ):
            page = await store.tasks(
                TaskQuery(
                    capability=query.capability,
                    states=query.states,
                    order=order,
                    ascending=True,
                    limit=3,
                    count=True,
                )
            )
            assert ids(page.tasks) == [1000, 1001, 1002], order
            assert (page.total, page.more) == (4, True)

    async def test_many_owners_are_listed_together(self, store: AnyStore) -> None:
        await store.commit([put(a_task(n, principal=f"p-{n}")) for n in range(100)])
        page = await store.tasks(TaskQuery(limit=3, count=True))
        assert ids(page.tasks) == [99, 98, 97]
        assert (page.total, page.more) == (100, True)
        some = tuple(f"p-{n}" for n in range(80))
        page = await store.tasks(TaskQuery(principals=some, limit=2, count=True))
        assert (ids(page.tasks), page.total) == ([79, 78], 80)


def _various() -> list[Task]:
    """Tasks with many ties in everything that can be sorted by."""
    states = (TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED, TaskState.FAILED)
    return [
        a_task(
            n,
            at=NOW + 5 * (n // 3),
            state=states[n % 4],
            principal=("owner", "other")[n % 5 == 0],
            capability=("test.echo", "test.sleep")[n % 3 == 0],
            priority=Priority(1 + n % 4),
            start_time=0 if n % 4 == 0 else NOW + n // 4,
            update_time=NOW + n % 7,
            state_time=NOW + n % 6,
        )
        for n in range(24)
    ]
