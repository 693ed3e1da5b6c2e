"""Whatever the domain can say comes back from its row as it was."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosd.adapters.sqlite import rows
from aiosd.application.writes import Subscription
from aiosd.domain.artifact import Artifact, StoredChunk
from aiosd.domain.capability import Capability
from aiosd.domain.content import Message, Progress, Role
from aiosd.domain.event import Event, StatusChanged
from aiosd.domain.state import TaskState
from aiosd.domain.task import Attempt, StateChange, Task, TaskRequest
from tests.contract.builders import NOW, a_chunk, a_task

# PostgreSQL cannot store NUL, and nobody can store half a surrogate pair: refused at the door.
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


PROGRESS = st.builds(
    Progress,
    st.floats(0, 100),
    TEXT,
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
)
CAPABILITY_ID = st.from_regex(r"[a-z][a-z0-9_-]{0,9}(\.[a-z0-9]{1,9}){0,3}", fullmatch=True)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as it is written in a dataclass; what the API refuses is left out."""
    if hint is str:
        return TEXT
    if hint is int:
        return INTEGERS
    if hint is Progress:
        return PROGRESS
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        members = {
            member.name: st.deferred(lambda kind=hints[member.name]: values(kind))  # type: ignore[misc]
            for member in fields(hint)
        }
        if hint is Capability:
            members["id"] = CAPABILITY_ID
        return st.builds(hint, **members)
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(values(one) for one in get_args(hint)))
    return st.from_type(hint)


def stored(task: Task) -> list[Any]:
    """The columns of a task's row as a query gives them."""
    columns = [getattr(task, name) for name in rows.TASK_COLUMNS]
    plain = [int(one) if isinstance(one, TaskState) else one for one in columns]
    checkpoint = task.attempt.checkpoint or None
    return [*plain, rows.task_body(task), rows.encode(task.request), checkpoint]


@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_a_task_comes_back_whole(data: st.DataObject) -> None:
    task = data.draw(values(Task))
    assert rows.task_of(stored(task)) == task


@pytest.mark.parametrize("payload", rows.KINDS.values(), ids=lambda kind: kind.__name__)
def test_an_event_of_every_kind_comes_back_whole(payload: type[Any]) -> None:
    @given(payload=values(payload), sequence=INTEGERS, time=INTEGERS)
    @settings(deadline=None, max_examples=20)
    def check(payload: Any, sequence: int, time: int) -> None:
        event = Event("task-1", sequence, time, payload)
        row = rows.event_row(7, event)
        assert row[0] == 7
        assert rows.event_of("task-1", *row[1:]) == event

    check()


@pytest.mark.parametrize(
    "kind", [TaskRequest, StateChange, Message, Artifact, Capability, Subscription]
)
def test_every_other_record_comes_back_whole(kind: type[Any]) -> None:
    @given(record=values(kind))
    @settings(deadline=None, max_examples=30)
    def check(record: Any) -> None:
        assert rows.decode(kind, rows.encode(record)) == record

    check()


@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_the_content_of_a_chunk_comes_back_whole(data: st.DataObject) -> None:
    chunk = data.draw(values(StoredChunk))
    assert rows.parts_of(*rows.chunk_content(chunk)) == chunk.parts


def test_raw_content_is_stored_as_bytes() -> None:
    body, raw = rows.chunk_content(a_chunk())
    assert raw == a_chunk().parts[1].raw
    assert b"raw" not in body


def test_every_column_is_a_member_and_none_is_in_the_body() -> None:
    assert set(rows.TASK_COLUMNS) < {member.name for member in fields(Task)}
    body = orjson.loads(rows.task_body(a_task(attempt=Attempt(1, "s", 2, "{}"))))
    assert not {*rows.TASK_COLUMNS, "request"} & set(body)
    assert body["attempt"] == {"number": 1, "holder": "s", "reports": 2}


def test_defaults_are_left_out() -> None:
    assert rows.task_body(a_task()) == b"{}"
    assert rows.encode(Message("m", Role.USER)) == b'{"message_id":"m","role":1}'


def test_members_of_a_later_version_are_passed_over() -> None:
    body = b'{"state":2,"previous":1,"invented":{"deep":[1]}}'
    event = rows.event_of("task-1", 1, NOW, 1, body)
    assert event.payload == StatusChanged(TaskState.WORKING, TaskState.SUBMITTED)
    row = stored(a_task())
    row[-3] = b'{"invented":1}'
    assert rows.task_of(row) == a_task()
