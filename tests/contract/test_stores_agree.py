"""The same history gives the same answers from both stores, whatever the history."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aiosd.adapters.memory import MemoryStore
from aiosd.adapters.sqlite import SqliteStore
from aiosd.application.ports import CommitConflict, TaskOrder, TaskQuery
from aiosd.application.writes import (
    AppendEvents,
    CutEvents,
    DropSubscription,
    PutArtifact,
    PutCapability,
    PutChunk,
    PutMessage,
    PutSubscription,
    PutTask,
    Subscription,
)
from aiosd.domain.capability import Capability, PermissionLevel
from aiosd.domain.content import Message, Progress, Role
from aiosd.domain.event import Event
from aiosd.domain.state import TERMINAL, TaskState
from aiosd.domain.task import Attempt, Priority, StateChange
from tests.contract.builders import NOW, a_chunk, a_key, a_task, an_artifact

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.application.writes import Write

NUMBERS = st.integers(0, 5)
TASK_IDS = NUMBERS.map(lambda number: a_task(number).id)
TIMES = st.integers(NOW, NOW + 4)
STATES = st.sampled_from(TaskState)
OWNERS = st.sampled_from(["owner", "other", "o'third %_*"])
CAPABILITIES = st.sampled_from(["test.echo", "test.echo_2", "other.one"])
ARTIFACT_IDS = st.sampled_from(["art-1", "art-2"])


@st.composite
def tasks(draw: st.DrawFn) -> Any:
    """A task in any state at any of a few times."""
    state = draw(STATES)
    end_time = draw(TIMES) if state in TERMINAL else 0
    return a_task(
        draw(NUMBERS),
        at=draw(TIMES),
        state=state,
        end_time=end_time,
        state_time=draw(TIMES),
        start_time=draw(st.just(0) | TIMES),
        update_time=draw(TIMES),
        attempt=Attempt(checkpoint=draw(st.sampled_from(["", "{}", '{"n":1}']))),
        revision=draw(st.integers(1, 3)),
    )


@st.composite
def inserts(draw: st.DrawFn) -> PutTask:
    """A new task, if its id is free."""
    task = draw(tasks())
    request = a_task(
        capability=draw(CAPABILITIES),
        priority=draw(st.sampled_from(Priority)),
        deadline_ms=draw(st.integers(0, 3)),
    ).request
    context = draw(st.sampled_from(["ctx-1", "ctx-2"]))
    return PutTask(replace(task, principal=draw(OWNERS), request=request, context_id=context), 0)


SEQUENCES = st.lists(st.integers(1, 6), max_size=3, unique=True).map(sorted)
WRITES: st.SearchStrategy[Any] = st.one_of(
    inserts(),
    st.builds(
        lambda task_id, numbers: AppendEvents(
            task_id,
            tuple(Event(task_id, one, NOW + one, Progress(one)) for one in numbers),
            tuple(StateChange(TaskState.WORKING, NOW, sequence=one) for one in numbers),
        ),
        TASK_IDS,
        SEQUENCES,
    ),
    st.builds(CutEvents, TASK_IDS, st.integers(0, 7)),
    st.builds(
        PutArtifact,
        TASK_IDS,
        st.builds(
            lambda artifact_id, version, chunks, at: an_artifact(
                artifact_id, version=version, chunks=chunks, at=at
            ),
            ARTIFACT_IDS,
            st.integers(1, 3),
            st.integers(0, 3),
            TIMES,
        ),
    ),
    st.builds(
        lambda task_id, artifact_id, version, position: PutChunk(
            task_id, a_chunk(position, version=version, artifact_id=artifact_id)
        ),
        TASK_IDS,
        ARTIFACT_IDS,
        st.integers(1, 2),
        st.integers(0, 2),
    ),
    st.builds(
        PutMessage,
        TASK_IDS,
        st.builds(Message, st.sampled_from(["a", "b", "c"]), st.sampled_from(Role)),
    ),
    st.builds(
        lambda key, owner, target, at: a_key(key, principal=owner, target=target, at=at),
        st.sampled_from(["k1", "k2"]),
        OWNERS,
        TASK_IDS,
        TIMES,
    ),
    st.builds(
        lambda name, level: PutCapability(Capability(name, level)),
        CAPABILITIES,
        st.sampled_from(PermissionLevel),
    ),
    st.builds(
        lambda name, task_id: PutSubscription(Subscription(name, task_id, "owner", (), 0, NOW)),
        st.sampled_from(["sub-1", "sub-2"]),
        TASK_IDS,
    ),
    st.builds(DropSubscription, st.sampled_from(["sub-1", "sub-2"])),
)

QUERIES = st.builds(
    TaskQuery,
    principals=st.lists(OWNERS, max_size=2, unique=True).map(tuple),
    states=st.lists(STATES, max_size=3, unique=True).map(tuple),
    capability=st.sampled_from(["", "*", "test.*", "*_2", "other.one", "none"]),
    context_id=st.sampled_from(["", "", "", "ctx-1"]),
    created_since=st.just(0) | TIMES,
    created_until=st.just(0) | TIMES,
    state_since=st.just(0) | TIMES,
    order=st.sampled_from(TaskOrder),
    ascending=st.booleans(),
    limit=st.integers(0, 4),
    skip=st.integers(0, 2),
    after=st.none() | st.tuples(TIMES | st.integers(0, 4), TASK_IDS),
    count=st.booleans(),
)


class StoresAgree(RuleBasedStateMachine):
    """Does everything to both stores and compares what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()

    @initialize()
    def open(self) -> None:
        """Both are empty."""
        self.memory = MemoryStore()
        self.path = Path(self.folder.name) / "aiosd.db"
        self.sqlite = SqliteStore.open(self.path)

    @rule(writes=st.lists(WRITES, min_size=1, max_size=4))
    def commit(self, writes: list[Write]) -> None:
        """Any writes at all."""
        self.same(lambda store: store.commit(writes))

    @rule(insert=inserts())
    def insert(self, insert: PutTask) -> None:
        """A task, so that the rest has something to belong to."""
        self.same(lambda store: store.commit([insert]))

    @rule(changed=tasks(), right=st.booleans())
    def update(self, changed: Any, right: bool) -> None:
        """A task's next revision, or another one. Its request and owner stay what they are."""
        stored = self.runner.run(self.memory.task(changed.id))
        if stored is None:
            return
        expected = stored.revision if right else stored.revision + 1
        task = replace(
            changed,
            principal=stored.principal,
            context_id=stored.context_id,
            request=stored.request,
            create_time=stored.create_time,
            revision=expected + 1,
        )
        self.same(lambda store: store.commit([PutTask(task, expected)]))

    @rule(task_ids=st.lists(TASK_IDS, max_size=2), keys_before=st.just(0) | TIMES)
    def forget(self, task_ids: list[str], keys_before: int) -> None:
        """Some tasks and keys."""
        self.same(lambda store: store.forget(task_ids, keys_before))

    @rule(query=QUERIES)
    def list_tasks(self, query: TaskQuery) -> None:
        """Any page."""
        self.same(lambda store: store.tasks(query))

    @rule()
    def reopen(self) -> None:
        """What is in the file does not change by it."""
        self.runner.run(self.sqlite.close())
        self.sqlite = SqliteStore.open(self.path)

    @rule(until=TIMES, limit=st.integers(0, 4), capability=CAPABILITIES)
    def ask_the_queue(self, until: int, limit: int, capability: str) -> None:
        """Everything that the scheduler asks."""
        self.same(lambda store: store.queued(capability, limit))
        self.same(lambda store: store.due(until + 3, limit))
        self.same(lambda store: store.expired(until, limit))
        self.same(lambda store: store.open_tasks())

    @rule(task_id=TASK_IDS, artifact_id=ARTIFACT_IDS, start=st.integers(0, 2))
    def ask_about_a_task(self, task_id: str, artifact_id: str, start: int) -> None:
        """Everything that a task owns."""
        self.same(lambda store: store.task(task_id))
        self.same(lambda store: store.events(task_id, start, 3))
        self.same(lambda store: store.history(task_id))
        self.same(lambda store: store.artifacts(task_id))
        self.same(lambda store: store.chunks(task_id, artifact_id, start, 2))
        self.same(lambda store: store.messages(task_id, start, 2))
        self.same(lambda store: store.find_artifact(artifact_id, ("owner",), ""))
        self.same(lambda store: store.find_artifact(artifact_id, (), task_id if start else ""))

    @rule(owner=OWNERS)
    def ask_the_registry(self, owner: str) -> None:
        """The small records."""
        self.same(lambda store: store.capabilities())
        self.same(lambda store: store.idempotency_key(owner, "CreateTask", "k1"))
        self.same(lambda store: store.subscription("sub-1"))

    @invariant()
    def counts_agree(self) -> None:
        """After every step."""
        for state in TaskState:
            self.same(lambda store, state=state: store.count(state))  # type: ignore[misc]

    def same(self, ask: Callable[[Any], Awaitable[Any]]) -> None:
        """Both answer alike, or both refuse."""
        memory, sqlite = self.runner.run(self.both(ask))
        assert memory == sqlite

    async def both(self, ask: Callable[[Any], Awaitable[Any]]) -> list[Any]:
        answers: list[Any] = []
        for store in (self.memory, self.sqlite):
            answer: Any = CommitConflict
            with suppress(CommitConflict):
                answer = await ask(store)
            answers.append(list(answer) if isinstance(answer, tuple | list) else answer)
        return answers

    def teardown(self) -> None:
        """Close the file."""
        if hasattr(self, "sqlite"):
            self.runner.run(self.sqlite.close())
        self.runner.close()
        self.folder.cleanup()


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
