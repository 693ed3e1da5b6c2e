"""Tasks, parts, messages and artifacts survive the way to A2A and back (R088, X33)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st

from aiosd.a2a_wire.fragments import members
from aiosd.a2a_wire.words import FAILURE_CLASSES
from aiosd.api.v1 import artifact_pb2, content_pb2, interruption_pb2, task_pb2
from gateway.a2a import mapping, words
from gateway.a2a.json_values import from_value, object_text, to_struct, to_value
from gateway.aios.parts import parse_part, render_part

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT.filter(lambda name: not name.startswith("aios")), VALUES, max_size=3)
WORDS = st.sampled_from(["", "text/plain", "image/png", "application/json"])


def text_of(value: dict[str, Any]) -> str:
    return json.dumps(value) if value else ""


@st.composite
def parts(draw: st.DrawFn) -> content_pb2.Part:
    part = content_pb2.Part(
        metadata=text_of(draw(OBJECTS)), filename=draw(TEXT), media_type=draw(WORDS)
    )
    match draw(st.sampled_from(["text", "raw", "url", "data"])):
        case "text":
            part.text = draw(TEXT)
        case "raw":
            part.raw = draw(st.binary(max_size=30))
        case "url":
            part.url = draw(TEXT)
        case _:
            part.data = json.dumps(draw(VALUES))
    return part


def plain(message: Any) -> Any:
    """A message of the contract with its JSON texts read, so that they compare as values."""

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            name: json.loads(member) if name in ("data", "metadata") and member else read(member)
            for name, member in value.items()
        }

    return read(MessageToDict(message))


def over_the_wire(message: Any) -> Any:
    """The message after it was written as ProtoJSON and read again."""
    return ParseDict(json.loads(json.dumps(MessageToDict(message))), type(message)())


@pytest.mark.req("R088", "R186", "X33")
@given(parts())
def test_a_part_survives_the_way_there_and_back(part: content_pb2.Part) -> None:
    shown = over_the_wire(mapping.to_part(part))
    assert plain(mapping.from_part(shown)) == plain(part)
    assert mapping.from_part(shown).WhichOneof("content") == part.WhichOneof("content")


@pytest.mark.req("R088", "X33")
@given(
    st.lists(parts(), max_size=3),
    TEXT.filter(bool),
    TEXT,
    TEXT,
    WORDS,
    TEXT,
    OBJECTS,
)
def test_an_artifact_survives_the_way_there_and_back(
    content: list[content_pb2.Part],
    artifact_id: str,
    name: str,
    kind: str,
    media_type: str,
    description: str,
    metadata: dict[str, Any],
) -> None:
    artifact = artifact_pb2.Artifact(
        artifact_id=artifact_id,
        name=name,
        type=kind,
        mime_type=media_type,
        description=description,
        metadata=text_of(metadata),
        parts=content,
    )
    told = artifact_pb2.Artifact()
    told.CopyFrom(artifact)
    # What the daemon counts is shown, and is nothing that a client could give back.
    told.version, told.sealed, told.sha256, told.chunk_count = 3, True, "ab" * 32, 4
    shown = over_the_wire(mapping.to_artifact(told))
    assert plain(mapping.from_artifact(shown)) == plain(artifact)


@pytest.mark.req("R088", "R083", "X33")
@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "words", "mime_type": "text/markdown"},
        {"type": "data", "data": {"n": 1, "list": [1.5, None, True, {"x": "y"}]}},
        {"type": "file", "file": {"uri": "https://e.org/f", "name": "f", "mime_type": "a/b"}},
        {"type": "file", "file": {"uri": "https://e.org/f", "size": 17}},
        {"type": "file", "file": {"uri": "data:a/b;base64,eA==", "mime_type": "a/b", "size": 1}},
        {"type": "image", "image": {"uri": "https://e.org/i.png", "mime_type": "image/png"}},
        {"type": "audio", "audio": {"uri": "https://e.org/a", "duration_ms": 5}},
        {"type": "video", "video": {"uri": "https://e.org/v", "mime_type": "video/mp4"}},
    ],
)
def test_an_aios_part_renders_as_a2a_and_back_as_it_was(part: dict[str, Any]) -> None:
    kept = parse_part(part)
    shown = over_the_wire(mapping.to_part(kept))
    assert render_part(mapping.from_part(shown)) == part


@pytest.mark.req("R088")
@given(st.lists(parts(), min_size=1, max_size=3), OBJECTS, st.lists(TEXT, max_size=2))
def test_a_message_survives_the_way_there_and_back(
    content: list[content_pb2.Part], metadata: dict[str, Any], references: list[str]
) -> None:
    message = content_pb2.Message(
        message_id="m",
        role=content_pb2.ROLE_USER,
        parts=content,
        metadata=text_of(metadata),
        reference_task_ids=references,
        extensions=["urn:x"],
    )
    shown = over_the_wire(mapping.to_message(message, "task-1", "ctx-1"))
    assert (shown.task_id, shown.context_id) == ("task-1", "ctx-1")
    assert plain(mapping.from_message(shown)) == plain(message)


@given(VALUES)
def test_a_json_value_survives_a_struct(value: Any) -> None:
    assert from_value(over_the_wire(to_value(value))) == value


def test_a_number_that_a_double_cannot_hold_becomes_its_digits() -> None:
    assert from_value(to_value({"n": 2**53 + 1})) == {"n": str(2**53 + 1)}
    assert members(object_text(to_struct({"n": 2**53}))) == {"n": 2**53}
    with pytest.raises(ValueError):
        object_text(to_struct({"n": float("inf")}))


@pytest.mark.req("R152", "R156", "R178", "R179", "X43", "Z08", "Z09")
def test_every_state_has_its_place_and_none_is_unspecified() -> None:
    shown = {
        task_pb2.TaskState.Name(native): a2a_pb2.TaskState.Name(words.state(native))
        for native in words.STATE
    }
    paused = shown.pop("TASK_STATE_PAUSED")
    assert paused == "TASK_STATE_WORKING"
    assert all(native == name for native, name in shown.items())
    assert set(shown) | {"TASK_STATE_UNSPECIFIED"} == set(a2a_pb2.TaskState.keys())
    with pytest.raises(KeyError):
        words.state(task_pb2.TASK_STATE_UNSPECIFIED)
    names = {task_pb2.TaskState.Name(one) for one in words.TERMINAL}
    assert names == {
        f"TASK_STATE_{word}" for word in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
    }
    names = {task_pb2.TaskState.Name(one) for one in words.INTERRUPTED}
    assert names == {"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}


@pytest.mark.req("R155", "Y09")
@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("TASK_STATE_WORKING", "TASK_STATE_WORKING"),
        ("working", "TASK_STATE_WORKING"),
        ("input-required", "TASK_STATE_INPUT_REQUIRED"),
        ("input_required", "TASK_STATE_INPUT_REQUIRED"),
        ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
        ("cancelled", "TASK_STATE_CANCELED"),
        ("paused", None),
        ("", None),
        ("done", None),
    ],
)
def test_a_state_is_read_in_every_spelling(word: str, name: str | None) -> None:
    assert words.state_name(word) == name


@pytest.mark.req("R197")
def test_every_failure_carries_one_of_six_classes() -> None:
    classes = set(FAILURE_CLASSES.values())
    assert classes == {
        "protocol_error",
        "auth_error",
        "task_rejected",
        "task_failed",
        "delivery_failed",
        "result_unacceptable",
    }


@pytest.mark.req("R174", "Z03")
@pytest.mark.parametrize(
    ("result", "reply", "has_artifacts", "expected"),
    [
        ('{"a":1}', "", False, {"data": {"a": 1}}),
        ('{"a":1}', "said", True, {"data": {"a": 1}}),
        ('"words"', "", False, {"text": "words"}),
        ("0", "", False, {"data": 0}),
        ("null", "said", False, {"text": "said"}),
        ("null", "said", True, None),
        ("null", "", False, None),
        ("", "", False, None),
    ],
)
def test_the_result_is_an_artifact(
    result: str, reply: str, has_artifacts: bool, expected: dict[str, Any] | None
) -> None:
    said = content_pb2.Message(parts=[content_pb2.Part(text=reply)]) if reply else None
    artifact = mapping.result_artifact(result, said, has_artifacts=has_artifacts)
    if expected is None:
        assert artifact is None
    else:
        assert artifact is not None
        assert MessageToDict(artifact)["parts"] == [expected]


_AUTH = interruption_pb2.AuthRequest


@pytest.mark.req("R183")
@pytest.mark.parametrize(
    ("wait", "told"),
    [
        ({"prompt": "Which one?"}, "Which one?"),
        ({}, "Input is required."),
        (
            {"auth_request": _AUTH(type="AUTH_TYPE_API_KEY", reason="the mailbox")},
            "the mailbox",
        ),
        (
            {"auth_request": _AUTH(type="AUTH_TYPE_API_KEY", provider="mail.test")},
            "Authorization is required: api key for mail.test.",
        ),
        (
            {"auth_request": _AUTH(type="AUTH_TYPE_OAUTH2")},
            "Authorization is required: oauth2.",
        ),
        (
            {"auth_request": _AUTH(type="AUTH_TYPE_APPROVAL", permissions=["a.b", "c"])},
            "Approval is required: a.b, c.",
        ),
    ],
)
def test_a_wait_tells_a_person_what_it_wants(wait: dict[str, Any], told: str) -> None:
    given = interruption_pb2.Interruption(action="auth-1", **wait)
    task = task_pb2.Task(task_id="task-1", context_id="ctx-1")
    assert mapping.prompt(task, 3, given).parts[0].text == told
