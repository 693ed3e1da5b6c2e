"""What every store promises about operations and instances."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pytest

from aiosd.application.ports import CommitConflict, OperationQuery, Runtimes, Store
from aiosd.application.writes import AppendOperationEvents, PutInstance, PutOperation
from aiosd.domain import operation_lifecycle as life
from aiosd.domain.instance import Instance
from aiosd.domain.operation import OperationRequest
from tests.contract.builders import NOW

if TYPE_CHECKING:
    from aiosd.application.writes import Write
    from aiosd.domain.operation import Operation
    from aiosd.domain.operation_lifecycle import OperationDraft


class RuntimeStore(Store, Runtimes, Protocol):
    """One object behind both ports."""


def an_instance(instance_id: str = "lab", **members: object) -> Instance:
    """An instance at revision 1."""
    made = Instance(instance_id, "Lab", "owner", '{"n":1}', "", ("m.a", "m.b"), 1, NOW)
    return replace(made, **members)


def submitted(
    number: int = 1, *, instance_id: str = "lab", principal: str = "owner"
) -> OperationDraft:
    """A queued operation; a higher number has a later id."""
    request = OperationRequest(
        instance_id, "instance", instance_id, "m.a", '{"x":1}', principal, NOW + number, NOW + 9_000
    )
    return life.submit(f"00000000-0000-7000-8000-{number:012x}", request)


def writes(draft: OperationDraft, before: Operation | None = None) -> list[Write]:
    """What makes a draft durable."""
    return [
        PutOperation(draft.operation, before.revision if before is not None else 0),
        AppendOperationEvents(draft.operation.id, tuple(draft.events)),
    ]


def run_to_the_end(operation: Operation) -> OperationDraft:
    """Every kind of member set, every kind of event of a good run."""
    draft = life.OperationDraft(operation, NOW + 100)
    life.start(draft, "session-1")
    life.acknowledge(draft, 1)
    life.progress(draft, "half way", 1, 2)
    life.cancel(draft, "owner", "why not")
    life.commit(draft, '{"n":2}', '{"done":true}')
    life.block(draft, "state.n: too large")
    life.synced(draft, 7)
    return draft


class RuntimeContract:
    """Operations and instances are stored whole, with the same guards as tasks."""

    async def test_operations_that_nobody_stored_are_not_there(self, store: RuntimeStore) -> None:
        assert await store.operation("x") is None
        assert list(await store.operations(OperationQuery())) == []
        assert list(await store.active_operations()) == []
        assert list(await store.operation_events("x", 0, 10)) == []
        assert list(await store.instances()) == []

    @pytest.mark.req("R168", "I01")
    async def test_an_operation_and_its_log_are_read_back_whole(self, store: RuntimeStore) -> None:
        draft = submitted()
        await store.commit(writes(draft))
        queued = draft.operation
        assert await store.operation(queued.id) == queued
        done = run_to_the_end(queued)
        await store.commit(writes(done, queued))
        assert await store.operation(queued.id) == done.operation
        assert list(await store.operation_events(queued.id, 0, 100)) == done.events
        assert list(await store.operation_events(queued.id, 2, 2)) == done.events[2:4]

    async def test_an_operation_that_moved_on_is_a_conflict(self, store: RuntimeStore) -> None:
        draft = submitted()
        await store.commit(writes(draft))
        done = run_to_the_end(draft.operation)
        await store.commit(writes(done, draft.operation))
        for stale in (draft.operation, None):
            with pytest.raises(CommitConflict):
                await store.commit([PutOperation(done.operation, stale.revision if stale else 0)])
        with pytest.raises(CommitConflict):
            await store.commit([AppendOperationEvents(draft.operation.id, tuple(done.events))])
        with pytest.raises(CommitConflict):
            await store.commit([AppendOperationEvents("x", tuple(done.events))])

    async def test_a_refused_commit_changes_neither_of_both(self, store: RuntimeStore) -> None:
        await store.commit([PutInstance(an_instance(), 0)])
        with pytest.raises(CommitConflict):
            await store.commit(
                [*writes(submitted()), PutInstance(an_instance(revision=3), expected_revision=2)]
            )
        assert await store.operation(submitted().operation.id) is None
        assert list(await store.instances()) == [an_instance()]

    async def test_instances_are_replaced_at_their_revision(self, store: RuntimeStore) -> None:
        await store.commit([PutInstance(an_instance("b"), 0), PutInstance(an_instance("a"), 0)])
        newer = an_instance("a").projected('{"n":2}', NOW + 5)
        await store.commit([PutInstance(newer, 1)])
        assert list(await store.instances()) == [newer, an_instance("b")]
        with pytest.raises(CommitConflict):
            await store.commit([PutInstance(an_instance("a"), 0)])

    async def test_lists_are_filtered_and_newest_first(self, store: RuntimeStore) -> None:
        drafts = [
            submitted(1),
            submitted(2, instance_id="other"),
            submitted(3, principal="stranger"),
            submitted(4),
        ]
        for draft in drafts:
            await store.commit(writes(draft))
        first, second, third, fourth = (draft.operation for draft in drafts)
        ended = run_to_the_end(fourth)
        await store.commit(writes(ended, fourth))

        async def ids(**filters: object) -> list[str]:
            query = OperationQuery(**filters)
            return [one.id for one in await store.operations(query)]

        assert await ids() == [fourth.id, third.id, second.id, first.id]
        assert await ids(principal="owner") == [fourth.id, second.id, first.id]
        assert await ids(principal="owner", instance_id="lab") == [fourth.id, first.id]
        assert await ids(active=True) == [third.id, second.id, first.id]
        assert await ids(limit=2) == [fourth.id, third.id]
        assert await ids(limit=2, before=third.id) == [second.id, first.id]
        assert [one.id for one in await store.active_operations()] == [
            first.id,
            second.id,
            third.id,
        ]

    async def test_only_old_terminal_operations_are_forgotten(self, store: RuntimeStore) -> None:
        for number in (1, 2, 3):
            draft = submitted(number)
            await store.commit(writes(draft))
            if number < 3:
                await store.commit(writes(run_to_the_end(draft.operation), draft.operation))
        assert await store.forget_operations(NOW + 100, 10) == 0
        assert await store.forget_operations(NOW + 101, 1) == 1
        assert await store.forget_operations(NOW + 101, 10) == 1
        left = [one.id for one in await store.operations(OperationQuery())]
        assert left == [submitted(3).operation.id]
        assert list(await store.operation_events(submitted(1).operation.id, 0, 10)) == []
