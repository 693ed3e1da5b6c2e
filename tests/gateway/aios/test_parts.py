from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosd.api.v1 import content_pb2
from gateway.aios.parts import PartError, parse_part, render_part

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
names = st.text("abcXYZ09_-.", min_size=1, max_size=12)
uris = st.one_of(
    names.map("https://example.org/{}".format),
    names.map("file:///tmp/{}".format),
    st.binary(max_size=12).map(lambda b: "data:text/plain;base64," + b64encode(b).decode()),
    st.just("data:,plain"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=3)
mime_types = st.sampled_from(
    ["text/plain", "image/png", "audio/ogg", "video/mp4", "application/octet-stream"]
)


def reference(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    members = st.fixed_dictionaries(
        {"uri": uris},
        optional={
            "mime_type": mime_types,
            "size": st.integers(0, 2**40),
            "duration_ms": st.integers(0, 2**40),
            "name": names,
        },
    )
    return members.map(lambda content: {"type": kind, kind: content})


aios_parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text}),
    objects.map(lambda data: {"type": "data", "data": data}),
    *(reference(kind) for kind in ("file", "image", "audio", "video")),
)
canonical_parts = st.builds(
    content_pb2.Part,
    metadata=objects.filter(lambda o: "aios" not in o and not {"size", "duration_ms"} & set(o)).map(
        lambda o: json.dumps(o, ensure_ascii=False, separators=(",", ":")) if o else ""
    ),
    filename=st.just("") | names,
    media_type=st.just("") | mime_types,
    text=texts,
)


@pytest.mark.req("R084", "X33")
@given(aios_parts)
def test_a_part_of_this_wire_comes_back_unchanged(part: dict[str, Any]) -> None:
    assert render_part(parse_part(part)) == part


@pytest.mark.req("R084", "R088")
@given(aios_parts)
def test_a_canonical_part_has_exactly_one_content(part: dict[str, Any]) -> None:
    assert parse_part(part).WhichOneof("content") in {"text", "raw", "url", "data"}


@pytest.mark.req("R088", "X33")
@given(
    canonical_parts,
    st.sampled_from(["text", "raw", "url", "data"]),
    st.binary(max_size=30),
    objects,
)
def test_a_canonical_part_survives_this_wire(
    part: content_pb2.Part, content: str, raw: bytes, data: dict[str, Any]
) -> None:
    if content == "raw":
        part.raw = raw
    elif content == "url":
        part.url = "https://example.org/x"
    elif content == "data":
        part.data = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    assert parse_part(render_part(part)) == part


@pytest.mark.req("R084", "X33")
@pytest.mark.parametrize("value", [None, 3, "x", [1, 2], True])
def test_data_that_is_no_object_is_wrapped(value: Any) -> None:
    part = content_pb2.Part(data=json.dumps(value))
    assert render_part(part) == {"type": "data", "data": {"value": value}}


@pytest.mark.req("R084")
def test_bytes_are_a_file_with_a_data_uri() -> None:
    part = content_pb2.Part(raw=b"hi", media_type="image/png", filename="a.png")
    assert render_part(part) == {
        "type": "file",
        "file": {
            "uri": "data:image/png;base64,aGk=",
            "mime_type": "image/png",
            "name": "a.png",
            "size": 2,
        },
    }


@pytest.mark.req("R083")
@pytest.mark.parametrize(
    "part",
    [
        {},
        [],
        {"type": "text"},
        {"type": "text", "data": {}},
        {"type": "text", "text": "a", "data": {}},
        {"type": "text", "text": 1},
        {"type": "data", "data": [1]},
        {"type": "image", "image": "https://example.org"},
        {"type": "image", "image": {}},
        {"type": "image", "image": {"uri": ""}},
        {"type": "audio", "audio": {"uri": "x:y", "duration_ms": -1}},
        {"type": "file", "file": {"uri": "x:y", "size": True}},
        {"type": "file", "file": {"uri": "x:y", "mime_type": 1}},
        {"type": "song", "song": {}},
        {"type": "text", "text": "a", "metadata": 1},
    ],
    ids=str,
)
def test_a_part_that_contradicts_itself_is_refused(part: Any) -> None:
    with pytest.raises(PartError):
        parse_part(part)
