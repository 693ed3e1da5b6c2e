"""What every store promises about commits and about what a task owns.

Each adapter's test module inherits this with a `store` fixture of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pytest

from aiosd.application.ports import CommitConflict, Queue, Registry, Store
from aiosd.application.writes import (
    CutEvents,
    DropSubscription,
    PutArtifact,
    PutCapability,
    PutChunk,
    PutMessage,
    PutSubscription,
    Subscription,
)
from aiosd.domain.capability import Capability, PermissionLevel
from aiosd.domain.content import Message, MessageStatus, Part, PartKind, Role
from aiosd.domain.event import EventFamily
from aiosd.domain.state import TERMINAL, TaskState
from tests.contract.builders import (
    NOW,
    a_chunk,
    a_key,
    a_task,
    an_artifact,
    put,
    status_events,
    submitted,
    update,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable


class AnyStore(Store, Queue, Registry, Protocol):
    """One object behind all three ports."""


async def refused(commit: Awaitable[None]) -> None:
    with pytest.raises(CommitConflict):
        await commit


class CommitContract:
    """All or nothing."""

    @pytest.mark.req("I01", "I02")
    async def test_a_committed_task_is_read_back_whole(self, store: AnyStore) -> None:
        task, writes = submitted()
        await store.commit(writes)
        assert await store.task(task.id) == task
        assert list(await store.events(task.id, 0, 10)) == list(writes[1].events)
        assert list(await store.history(task.id)) == list(writes[1].history)

    async def test_an_empty_commit_is_nothing(self, store: AnyStore) -> None:
        await store.commit(())

    async def test_what_nobody_stored_is_not_there(self, store: AnyStore) -> None:
        assert await store.task("task-x") is None
        assert list(await store.events("task-x", 0, 10)) == []
        assert list(await store.history("task-x")) == []
        assert list(await store.artifacts("task-x")) == []
        assert list(await store.messages("task-x", 0, 10)) == []
        assert list(await store.chunks("task-x", "art-x", 0, 10)) == []
        assert await store.find_artifact("art-x", (), "") is None
        assert await store.idempotency_key("owner", "CreateTask", "k") is None
        assert await store.subscription("sub-x") is None
        assert list(await store.capabilities()) == []
        assert await store.count(TaskState.SUBMITTED) == 0

    @pytest.mark.req("I02")
    async def test_a_refused_commit_has_no_effect_at_all(self, store: AnyStore) -> None:
        first, second = a_task(1), a_task(2)
        await store.commit(
            [put(first), status_events(first.id, 1), PutArtifact(first.id, an_artifact())]
        )
        await refused(
            store.commit(
                [
                    put(second),
                    status_events(second.id, 1),
                    update(first, state=TaskState.WORKING),
                    status_events(first.id, 2),
                    CutEvents(first.id, 2),
                    PutArtifact(first.id, an_artifact(chunks=2)),
                    PutChunk(first.id, a_chunk()),
                    PutMessage(first.id, Message("m", Role.USER)),
                    PutCapability(Capability("test.echo", PermissionLevel.LOW)),
                    PutSubscription(Subscription("sub-1", first.id, "owner", (), 0, NOW)),
                    a_key(),
                    put(first),
                ]
            )
        )
        assert await store.task(second.id) is None
        assert await store.task(first.id) == first
        assert [one.sequence for one in await store.events(first.id, 0, 10)] == [1]
        assert len(await store.history(first.id)) == 1
        assert list(await store.artifacts(first.id)) == [an_artifact()]
        assert list(await store.chunks(first.id, "art-1", 0, 10)) == []
        assert list(await store.messages(first.id, 0, 10)) == []
        assert list(await store.capabilities()) == []
        assert await store.subscription("sub-1") is None
        assert await store.idempotency_key("owner", "CreateTask", "k") is None
        assert await store.count(TaskState.SUBMITTED) == 1
        assert await store.count(TaskState.WORKING) == 0

    @pytest.mark.req("I12")
    async def test_a_revision_that_moved_on_is_a_conflict(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit([put(task)])
        await store.commit([update(task, state_reason="first")])
        await refused(store.commit([update(task, state_reason="second")]))
        stored = await store.task(task.id)
        assert stored is not None
        assert (stored.state_reason, stored.revision) == ("first", 2)

    async def test_a_task_cannot_be_inserted_twice_or_updated_unborn(self, store: AnyStore) -> None:
        await refused(store.commit([update(a_task())]))
        await store.commit([put(a_task())])
        await refused(store.commit([put(a_task())]))

    async def test_one_commit_may_take_a_task_through_several_revisions(
        self, store: AnyStore
    ) -> None:
        task = a_task()
        second = update(task, state=TaskState.WORKING)
        third = update(second.task, state=TaskState.COMPLETED, end_time=NOW)
        await store.commit([put(task), second, third])
        assert await store.task(task.id) == third.task
        assert await store.count(TaskState.COMPLETED) == 1
        assert await store.count(TaskState.SUBMITTED) == await store.count(TaskState.WORKING) == 0

    async def test_a_task_may_change_its_times_and_keep_its_state(self, store: AnyStore) -> None:
        task = a_task(state=TaskState.COMPLETED)
        later = update(task, start_time=NOW + 5, state_time=NOW + 6, end_time=NOW + 7)
        await store.commit([put(task), later])
        assert await store.task(task.id) == later.task
        assert list(await store.expired(NOW + 7, 10)) == []
        assert list(await store.expired(NOW + 8, 10)) == [task.id]

    @pytest.mark.req("I12")
    async def test_of_concurrent_commits_to_one_revision_one_succeeds(
        self, store: AnyStore
    ) -> None:
        task = a_task()
        await store.commit([put(task)])
        commits = [store.commit([update(task, state_reason=str(n))]) for n in range(20)]
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert answers.count(None) == 1
        assert sum(isinstance(answer, CommitConflict) for answer in answers) == 19
        stored = await store.task(task.id)
        assert stored is not None
        assert stored.state_reason == str(answers.index(None))

    async def test_a_refused_commit_does_not_hurt_those_beside_it(self, store: AnyStore) -> None:
        await store.commit([put(a_task(1))])
        commits = [store.commit([put(a_task(n % 7))]) for n in range(40)]
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert answers.count(None) == 6
        assert await store.count(TaskState.SUBMITTED) == 7

    async def test_what_belongs_to_no_task_is_refused(self, store: AnyStore) -> None:
        await refused(store.commit([status_events("task-x", 1)]))
        await refused(store.commit([CutEvents("task-x", 1)]))
        await refused(store.commit([PutArtifact("task-x", an_artifact())]))
        await refused(store.commit([PutChunk("task-x", a_chunk())]))
        await refused(store.commit([PutMessage("task-x", Message("m", Role.USER))]))
        lost = Subscription("sub-1", "task-x", "owner", (), 0, NOW)
        await refused(store.commit([PutSubscription(lost)]))

    @pytest.mark.req("I03", "I04")
    async def test_a_key_can_be_taken_once(self, store: AnyStore) -> None:
        await store.commit([a_key(), put(a_task(1))])
        await refused(store.commit([put(a_task(2)), a_key(fingerprint="other")]))
        assert await store.task(a_task(2).id) is None
        assert await store.idempotency_key("owner", "CreateTask", "k") == a_key()

    @pytest.mark.req("I03")
    async def test_the_same_key_of_another_caller_or_method_is_another_key(
        self, store: AnyStore
    ) -> None:
        keys = [a_key(), a_key(principal="other"), a_key(method="Cancel"), a_key("K")]
        await store.commit(keys)
        for key in keys:
            assert await store.idempotency_key(key.principal, key.method, key.key) == key

    @pytest.mark.req("I03")
    async def test_of_concurrent_commits_with_one_key_one_succeeds(self, store: AnyStore) -> None:
        commits = [store.commit([put(a_task(n)), a_key(target=a_task(n).id)]) for n in range(10)]
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert answers.count(None) == 1
        key = await store.idempotency_key("owner", "CreateTask", "k")
        assert key is not None
        assert await store.task(key.target) is not None
        assert await store.count(TaskState.SUBMITTED) == 1


class OwnershipContract:
    """Events, artifacts, messages and the small records."""

    @pytest.mark.req("I08")
    async def test_events_come_in_order_after_a_cursor(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit([put(task), status_events(task.id, 1, 2, 3)])
        await store.commit([status_events(task.id, 4, 5)])
        assert [one.sequence for one in await store.events(task.id, 0, 100)] == [1, 2, 3, 4, 5]
        assert [one.sequence for one in await store.events(task.id, 2, 2)] == [3, 4]
        assert list(await store.events(task.id, 5, 2)) == []
        assert [one.sequence for one in await store.history(task.id)] == [1, 2, 3, 4, 5]

    async def test_an_event_number_is_given_once(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit([put(task), status_events(task.id, 1)])
        await refused(store.commit([status_events(task.id, 1)]))

    async def test_events_of_one_task_are_not_those_of_another(self, store: AnyStore) -> None:
        await store.commit([put(a_task(1)), put(a_task(2))])
        await store.commit([status_events(a_task(1).id, 1), status_events(a_task(2).id, 1, 2)])
        assert {one.task_id for one in await store.events(a_task(1).id, 0, 10)} == {a_task(1).id}
        assert len(await store.events(a_task(2).id, 0, 10)) == 2

    async def test_cut_events_are_gone_and_history_stays(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit([put(task), status_events(task.id, 1, 2, 3, 4)])
        await store.commit([CutEvents(task.id, 3), update(task, event_floor=3)])
        assert [one.sequence for one in await store.events(task.id, 0, 10)] == [3, 4]
        assert len(await store.history(task.id)) == 4

    @pytest.mark.req("I37")
    async def test_an_artifact_grows_chunk_by_chunk(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit([put(task)])
        for n in range(5):
            grown = an_artifact(chunks=n + 1)
            await store.commit([PutArtifact(task.id, grown), PutChunk(task.id, a_chunk(n))])
            assert list(await store.artifacts(task.id)) == [grown]
        chunks = await store.chunks(task.id, "art-1", 0, 100)
        assert list(chunks) == [a_chunk(n) for n in range(5)]
        assert [one.position for one in await store.chunks(task.id, "art-1", 2, 2)] == [2, 3]
        await refused(store.commit([PutChunk(task.id, a_chunk(4))]))

    @pytest.mark.req("I38")
    async def test_a_new_version_takes_the_place_of_all_old_chunks(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit([put(task), PutArtifact(task.id, an_artifact(chunks=3))])
        await store.commit([PutChunk(task.id, a_chunk(n)) for n in range(3)])
        second = an_artifact(version=2, at=NOW + 9)
        await store.commit([PutArtifact(task.id, second), PutChunk(task.id, a_chunk(version=2))])
        assert list(await store.artifacts(task.id)) == [second]
        assert list(await store.chunks(task.id, "art-1", 0, 10)) == [a_chunk(version=2)]

    async def test_chunks_may_be_committed_before_their_artifact(self, store: AnyStore) -> None:
        task = a_task()
        await store.commit(
            [put(task), PutChunk(task.id, a_chunk()), PutArtifact(task.id, an_artifact())]
        )
        assert list(await store.chunks(task.id, "art-1", 0, 10)) == [a_chunk()]

    async def test_artifacts_keep_the_order_of_their_creation(self, store: AnyStore) -> None:
        task = a_task()
        names = ["art-z", "art-a", "art-m"]
        await store.commit([put(task), *(PutArtifact(task.id, an_artifact(n)) for n in names)])
        await store.commit([PutArtifact(task.id, an_artifact("art-z", version=2))])
        assert [one.artifact_id for one in await store.artifacts(task.id)] == names

    async def test_the_newest_artifact_of_an_id_is_found(self, store: AnyStore) -> None:
        old, new = a_task(1), a_task(2)
        await store.commit([put(old), put(new)])
        await store.commit([PutArtifact(new.id, an_artifact(at=NOW + 1, chunks=2))])
        await store.commit([PutArtifact(old.id, an_artifact(at=NOW))])
        found = await store.find_artifact("art-1", (), "")
        assert found is not None
        assert (found.task_id, found.artifact) == (new.id, an_artifact(at=NOW + 1, chunks=2))
        found = await store.find_artifact("art-1", ("owner",), old.id)
        assert found is not None
        assert found.task_id == old.id
        await store.commit([PutArtifact(old.id, an_artifact(at=NOW + 1))])
        found = await store.find_artifact("art-1", (), "")
        assert found is not None
        assert found.task_id == new.id, "of the same time, the later task's"

    async def test_an_artifact_is_found_among_its_owners_only(self, store: AnyStore) -> None:
        mine, theirs = a_task(1), a_task(2, principal="other")
        await store.commit([put(mine), put(theirs), PutArtifact(theirs.id, an_artifact())])
        assert await store.find_artifact("art-1", ("owner",), "") is None
        assert await store.find_artifact("art-1", ("owner",), theirs.id) is None
        assert await store.find_artifact("art-1", ("owner", "other"), mine.id) is None
        assert await store.find_artifact("art-1", ("owner", "other"), "") is not None

    @pytest.mark.req("R159")
    async def test_messages_keep_the_order_of_their_first_insertion(self, store: AnyStore) -> None:
        task = a_task()
        first = Message("m-z", Role.AGENT, status=MessageStatus.STREAMING)
        await store.commit([put(task), PutMessage(task.id, first)])
        await store.commit([PutMessage(task.id, Message(f"m-{n}", Role.USER)) for n in range(3)])
        final = replace(first, parts=(Part(PartKind.TEXT, "done"),), status=MessageStatus.COMPLETED)
        await store.commit([PutMessage(task.id, final)])
        messages = await store.messages(task.id, 0, 10)
        assert [one.message_id for one in messages] == ["m-z", "m-0", "m-1", "m-2"]
        assert messages[0] == final
        assert [one.message_id for one in await store.messages(task.id, 1, 2)] == ["m-0", "m-1"]

    async def test_capabilities_are_replaced_and_listed_by_id(self, store: AnyStore) -> None:
        for name in ("b.two", "a.one", "b.one"):
            await store.commit([PutCapability(Capability(name, PermissionLevel.LOW))])
        newer = Capability("a.one", PermissionLevel.HIGH, tags=("x",), examples=("{}",))
        await store.commit([PutCapability(newer)])
        capabilities = await store.capabilities()
        assert [one.id for one in capabilities] == ["a.one", "b.one", "b.two"]
        assert capabilities[0] == newer

    async def test_subscriptions_come_and_go(self, store: AnyStore) -> None:
        task = a_task()
        families = (EventFamily.STATUS, EventFamily.LOG)
        wish = Subscription("sub-1", task.id, "owner", families, 7, NOW)
        await store.commit([put(task), PutSubscription(wish)])
        assert await store.subscription("sub-1") == wish
        await refused(store.commit([PutSubscription(wish)]))
        await store.commit([DropSubscription("sub-1"), DropSubscription("sub-1")])
        assert await store.subscription("sub-1") is None

    async def test_a_forgotten_task_takes_all_it_owns_along(self, store: AnyStore) -> None:
        gone, kept = (a_task(n, state=TaskState.COMPLETED) for n in (1, 2))
        for task in (gone, kept):
            await store.commit(
                [
                    put(task),
                    status_events(task.id, 1),
                    PutArtifact(task.id, an_artifact()),
                    PutChunk(task.id, a_chunk()),
                    PutMessage(task.id, Message("m", Role.USER)),
                    PutSubscription(Subscription(f"sub-{task.id}", task.id, "owner", (), 0, NOW)),
                ]
            )
        await store.forget([gone.id, "task-x"], 0)
        assert await store.task(gone.id) is None
        assert list(await store.events(gone.id, 0, 10)) == list(await store.history(gone.id)) == []
        assert (
            list(await store.artifacts(gone.id)) == list(await store.messages(gone.id, 0, 9)) == []
        )
        assert list(await store.chunks(gone.id, "art-1", 0, 10)) == []
        assert await store.subscription(f"sub-{gone.id}") is None
        found = await store.find_artifact("art-1", (), "")
        assert found is not None
        assert found.task_id == kept.id
        assert await store.subscription(f"sub-{kept.id}") is not None
        assert len(await store.messages(kept.id, 0, 10)) == 1
        assert await store.count(TaskState.COMPLETED) == 1
        await store.commit([put(gone)])
        assert list(await store.events(gone.id, 0, 10)) == []

    async def test_only_terminal_tasks_can_be_forgotten(self, store: AnyStore) -> None:
        tasks = [a_task(n, state=state) for n, state in enumerate(TaskState)]
        await store.commit([put(task) for task in tasks])
        await store.forget([task.id for task in tasks], 0)
        left = {task.state for task in tasks if await store.task(task.id) is not None}
        assert left == set(TaskState) - TERMINAL

    @pytest.mark.req("I03")
    async def test_keys_older_than_a_time_are_forgotten(self, store: AnyStore) -> None:
        await store.commit([a_key("old", at=NOW - 1), a_key("new", at=NOW)])
        await store.forget([], NOW)
        assert await store.idempotency_key("owner", "CreateTask", "old") is None
        assert await store.idempotency_key("owner", "CreateTask", "new") is not None
        await store.commit([a_key("old", fingerprint="another")])
