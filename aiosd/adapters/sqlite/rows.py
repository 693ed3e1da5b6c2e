"""Domain values to rows and back.

A body is a JSON object with the members that have no column of their own; defaults are left out,
members that this version does not know are passed over. Kinds are numbers for ever.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import orjson
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.preconf.orjson import make_converter

from aiosd.domain.artifact import Artifact, StoredChunk
from aiosd.domain.content import LogLine, Part, Progress
from aiosd.domain.event import (
    ArtifactChanged,
    AttemptChanged,
    AuthRequired,
    Event,
    InputRequired,
    MessageChanged,
    Payload,
    Resolved,
    ResultStored,
    StatusChanged,
    TaskFailed,
)
from aiosd.domain.state import TaskState
from aiosd.domain.task import Task, TaskRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

KINDS: dict[int, type[Payload]] = {
    1: StatusChanged,
    2: Progress,
    3: LogLine,
    4: ArtifactChanged,
    5: InputRequired,
    6: AuthRequired,
    7: ResultStored,
    8: TaskFailed,
    9: MessageChanged,
    10: AttemptChanged,
    11: Resolved,
}
_NUMBERS = {kind: number for number, kind in KINDS.items()}
if set(_NUMBERS) != set(get_args(Payload)):
    raise AssertionError("every payload needs a number in KINDS")

#: Members of a task that have a column, or a table of their own.
TASK_COLUMNS = (
    "id",
    "context_id",
    "principal",
    "state",
    "state_time",
    "create_time",
    "update_time",
    "start_time",
    "end_time",
    "revision",
)

CONVERTER = make_converter(omit_if_default=True, detailed_validation=False)
CONVERTER.register_unstructure_hook(bytes, lambda raw: b64encode(raw).decode())
CONVERTER.register_structure_hook(bytes, lambda text, _: b64decode(text))


def _given(value: Any, _: Any) -> Any:
    return value


_apart: dict[str, Any] = {
    name: override(omit=False, struct_hook=_given) for name in (*TASK_COLUMNS, "request")
}
_omitted: dict[str, Any] = dict.fromkeys(_apart, override(omit=True))
_task_body = make_dict_unstructure_fn(Task, CONVERTER, _cattrs_omit_if_default=True, **_omitted)
_task = make_dict_structure_fn(Task, CONVERTER, _cattrs_detailed_validation=False, **_apart)
_to_dict = {kind: CONVERTER.get_unstructure_hook(kind) for kind in _NUMBERS}
_from_dict = {number: (kind, CONVERTER.get_structure_hook(kind)) for number, kind in KINDS.items()}


def encode(value: object) -> bytes:
    """Any other record as a body."""
    return orjson.dumps(CONVERTER.unstructure(value))


def decode(kind: type[T], body: bytes) -> T:
    """The record of a body that `encode` made."""
    return CONVERTER.structure(orjson.loads(body), kind)


def task_body(task: Task) -> bytes:
    """What has no column; without the request and the checkpoint, which have tables."""
    if task.attempt.checkpoint:
        task = replace(task, attempt=replace(task.attempt, checkpoint=""))
    return orjson.dumps(_task_body(task))


def task_of(row: Sequence[Any]) -> Task:
    """The task of TASK_COLUMNS, body, request's body and checkpoint."""
    *columns, body, request, checkpoint = row
    members = orjson.loads(body)
    members.update(zip(TASK_COLUMNS, columns, strict=True))
    members["state"] = TaskState(members["state"])
    members["request"] = decode(TaskRequest, request)
    if checkpoint:
        members.setdefault("attempt", {})["checkpoint"] = checkpoint
    return _task(members, Task)


def event_row(row: int, event: Event) -> tuple[int, int, int, int, bytes]:
    """Task row, sequence, time, kind, body."""
    payload = event.payload
    kind = type(payload)
    return row, event.sequence, event.time, _NUMBERS[kind], orjson.dumps(_to_dict[kind](payload))


def event_of(task_id: str, sequence: int, time: int, kind: int, body: bytes) -> Event:
    """The event of a row."""
    payload, structure = _from_dict[kind]
    return Event(task_id, sequence, time, structure(orjson.loads(body), payload))


def chunk_content(chunk: StoredChunk) -> tuple[bytes, bytes]:
    """Body and raw bytes of a chunk's parts."""
    raw = b"".join(part.raw for part in chunk.parts)
    bare = [
        (CONVERTER.unstructure(replace(part, raw=b"") if part.raw else part), len(part.raw))
        for part in chunk.parts
    ]
    return orjson.dumps(bare), raw


def parts_of(body: bytes, raw: bytes) -> tuple[Part, ...]:
    """The parts that `chunk_content` took apart."""
    parts = []
    at = 0
    for members, size in orjson.loads(body):
        part = CONVERTER.structure(members, Part)
        parts.append(replace(part, raw=raw[at : at + size]) if size else part)
        at += size
    return tuple(parts)


def artifact_body(artifact: Artifact) -> bytes:
    """What is known of an artifact without its digests, which have rows."""
    return encode(replace(artifact, digests=()))


def artifact_of(body: bytes, digests: Sequence[str]) -> Artifact:
    """The artifact of its row and the rows of its digests."""
    return replace(decode(Artifact, body), digests=tuple(digests))
