"""Chunks of artifacts: what is accepted, what is a repetition, what is refused (Z30-Z36)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from aiosd.domain import lifecycle, reports
from aiosd.domain.artifact import Artifact, Chunk, accept_chunk
from aiosd.domain.content import Part, PartKind
from aiosd.domain.errors import ReportRefused
from aiosd.domain.event import ArtifactChanged, ResultStored
from aiosd.domain.failure import FailureClass
from aiosd.domain.state import TaskState
from tests.support.builders import a_draft, drive, reopen
from tests.support.manual_clock import START


def a_chunk(
    text: str = "a", *, append: bool = False, last: bool = False, **members: object
) -> Chunk:
    parts = (Part(PartKind.TEXT, text),)
    return replace(Chunk("art-1", parts, append, last, digest=text), **members)


def accepted(known: Artifact | None, chunk: Chunk) -> Artifact:
    after = accept_chunk(known, chunk, START)
    assert after is not None
    return after


def refusal(known: Artifact | None, chunk: Chunk) -> str:
    with pytest.raises(ReportRefused) as refused:
        accept_chunk(known, chunk, START)
    return refused.value.code


@pytest.mark.req("R193", "Z30", "Z31")
def test_chunks_are_joined_in_order_and_sealed_by_the_last_one() -> None:
    artifact = accepted(None, a_chunk("ab", name="report"))
    artifact = accepted(artifact, a_chunk("c", append=True))
    assert (artifact.chunk_count, artifact.size_bytes, artifact.sealed) == (2, 3, False)
    assert artifact.sha256 == ""
    artifact = accepted(artifact, a_chunk("d", append=True, last=True))
    assert (artifact.chunk_count, artifact.part_count, artifact.sealed) == (3, 3, True)
    assert (artifact.name, artifact.version, len(artifact.sha256)) == ("report", 1, 64)


@pytest.mark.req("R193", "Z30")
def test_appending_to_an_artifact_that_was_never_begun_is_refused() -> None:
    assert refusal(None, a_chunk(append=True)) == "ARTIFACT_UNKNOWN"


@pytest.mark.req("R193", "Z32")
def test_appending_to_a_sealed_artifact_is_refused() -> None:
    sealed = accepted(None, a_chunk(last=True))
    assert refusal(sealed, a_chunk("b", append=True)) == "ARTIFACT_SEALED"


@pytest.mark.req("Z31", "Z32", "R082")
def test_beginning_again_makes_a_new_version() -> None:
    sealed = accepted(None, a_chunk(last=True))
    again = accepted(sealed, a_chunk("b"))
    assert (again.version, again.chunk_count, again.sealed) == (2, 1, False)


@pytest.mark.req("R194", "Z33", "I37")
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_identical_chunk_is_dropped_even_after_the_seal(position: int) -> None:
    chunks = [a_chunk("a"), a_chunk("b", append=True), a_chunk("c", append=True, last=True)]
    artifact: Artifact | None = None
    for chunk in chunks:
        artifact = accepted(artifact, chunk)
    if position:
        again = replace(chunks[position], position=position)
        assert accept_chunk(artifact, again, START) is None


@pytest.mark.req("R194", "Z33")
def test_the_first_chunk_sent_twice_is_dropped() -> None:
    artifact = accepted(None, a_chunk("a"))
    assert accept_chunk(artifact, a_chunk("a"), START) is None


@pytest.mark.req("R194", "Z33")
def test_other_content_at_a_position_that_was_accepted_is_a_conflict() -> None:
    artifact = accepted(accepted(None, a_chunk("a")), a_chunk("b", append=True))
    assert refusal(artifact, a_chunk("x", append=True, position=1)) == "CHUNK_CONFLICT"


@pytest.mark.req("R194", "Z34")
def test_a_gap_is_refused_and_never_joined() -> None:
    artifact = accepted(None, a_chunk("a"))
    assert refusal(artifact, a_chunk("c", append=True, position=2)) == "CHUNK_GAP"
    assert refusal(None, a_chunk("c", position=1)) == "CHUNK_GAP"


@pytest.mark.req("R195", "Z35", "R197")
def test_a_task_with_an_unsealed_artifact_fails_instead_of_completing() -> None:
    draft = reopen(drive(a_draft(), TaskState.WORKING))
    reports.chunk(draft, a_chunk("a"))
    lifecycle.complete(draft, "1")
    assert draft.task.state is TaskState.FAILED
    assert draft.task.failure is not None
    assert draft.task.failure.failure_class is FailureClass.PROTOCOL_ERROR
    assert draft.task.failure.code == -32114
    assert json.loads(draft.task.failure.data)["artifact_ids"] == ["art-1"]


@pytest.mark.req("R068", "R174", "R193")
def test_the_result_names_the_artifacts_and_events_tell_each_chunk() -> None:
    draft = reopen(drive(a_draft(), TaskState.WORKING))
    reports.chunk(draft, a_chunk("a"))
    reports.chunk(draft, a_chunk("b", append=True, last=True))
    lifecycle.complete(draft, "1")
    told = [one.payload for one in draft.events if isinstance(one.payload, ArtifactChanged)]
    assert [(one.position, one.append, one.last) for one in told] == [
        (0, False, False),
        (1, True, True),
    ]
    result = next(one.payload for one in draft.events if isinstance(one.payload, ResultStored))
    assert [one.artifact_id for one in result.artifacts] == ["art-1"]
    assert draft.task.artifact_count == 1
    assert [(one.version, one.position) for one in draft.chunks] == [(1, 0), (1, 1)]


@pytest.mark.req("R194")
def test_a_repeated_chunk_adds_neither_event_nor_content() -> None:
    draft = reopen(drive(a_draft(), TaskState.WORKING))
    reports.chunk(draft, a_chunk("a", last=True))
    told, kept = len(draft.events), len(draft.chunks)
    reports.chunk(draft, a_chunk("a", last=True))
    assert (len(draft.events), len(draft.chunks)) == (told, kept)
