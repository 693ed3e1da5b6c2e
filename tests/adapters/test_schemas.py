"""The Schemas port: right answers, nothing fetched, and no schema that stops the daemon."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from aiosd.adapters.patterns import UnsafePattern, compiled
from aiosd.adapters.schemas import MAX_SCHEMA_BYTES, JsonSchemas

QUICK_S = 5.0


@pytest.fixture
def schemas() -> JsonSchemas:
    return JsonSchemas()


def text(**members: Any) -> str:
    return json.dumps(members)


def test_a_fitting_instance_has_no_problem(schemas: JsonSchemas) -> None:
    schema = text(type="object", properties={"path": {"type": "string"}}, required=["path"])
    assert schemas.check(schema) == ""
    assert schemas.problem(schema, {"path": "/usr"}) == ""


@pytest.mark.parametrize(
    ("instance", "place"),
    [
        ({}, "$: "),
        ({"path": 1}, "$.path: "),
        ({"path": "/", "deep": [{"n": "x"}]}, "$.deep[0].n: "),
    ],
)
def test_a_problem_is_one_line_that_names_the_place(
    schemas: JsonSchemas, instance: object, place: str
) -> None:
    schema = text(
        properties={
            "path": {"type": "string"},
            "deep": {"items": {"properties": {"n": {"type": "integer"}}}},
        },
        required=["path"],
    )
    problem = schemas.problem(schema, instance)
    assert problem.startswith(place)
    assert "\n" not in problem


def test_a_long_value_is_not_repeated_in_full(schemas: JsonSchemas) -> None:
    assert len(schemas.problem(text(type="integer"), "x" * 100_000)) <= 300


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "the schema is not JSON"),
        ("[]", "must be a JSON object or a boolean"),
        ('"text"', "must be a JSON object or a boolean"),
        ('{"type": "text"}', "the schema is not valid: $.type"),
        ('{"pattern": "("}', "the schema is not valid: $.pattern"),
        ('{"$ref": "#/$defs/gone"}', "'#/$defs/gone', which is not part of it"),
        ("[" * 100_000, "larger than"),
        ("[" * 60_000, "nested too deeply"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_why(
    schemas: JsonSchemas, schema: str, why: str
) -> None:
    assert why in schemas.check(schema)
    assert why in schemas.problem(schema, {})


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/schema.json",
        "https://example.com/schema.json",
        "file:///etc/hostname",
        "ftp://example.com/x",
        "other.json",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_reference_out_of_the_schema_is_a_problem_and_never_fetched(
    schemas: JsonSchemas, keyword: str, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr(socket, "socket", refuse)
    schema = text(properties={"a": {"items": {keyword: reference}}})
    assert f"{reference!r}, which is not part of it" in schemas.check(schema)
    assert schemas.problem(schema, {"a": [1]}) == schemas.check(schema)


def test_references_within_a_schema_work(schemas: JsonSchemas) -> None:
    schema = text(
        **{
            "$id": "https://example.com/tree",
            "$defs": {"leaf": {"$anchor": "leaf", "type": "integer"}},
            "properties": {"left": {"$ref": "#"}, "leaf": {"$ref": "tree#leaf"}},
        }
    )
    assert schemas.check(schema) == ""
    assert schemas.problem(schema, {"left": {"left": {"leaf": 1}}}) == ""
    assert schemas.problem(schema, {"left": {"leaf": "x"}}).startswith("$.left.leaf")


def test_a_word_that_only_looks_like_a_reference_is_none(schemas: JsonSchemas) -> None:
    assert schemas.check(text(enum=[{"$ref": "https://example.com/x"}])) == ""
    assert schemas.check(text(properties={"$ref": {"type": "string"}})) == ""


def test_a_schema_of_the_largest_size_is_taken_and_a_larger_one_is_not(
    schemas: JsonSchemas,
) -> None:
    room = MAX_SCHEMA_BYTES - len(text(description=""))
    assert schemas.check(text(description="x" * room)) == ""
    assert "larger than" in schemas.check(text(description="x" * (room + 1)))


@pytest.mark.parametrize(
    "schema",
    [
        text(**{"$ref": "#"}),
        text(
            allOf=[{"$ref": "#/$defs/a0"}],
            **{
                "$defs": {
                    f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)
                }
                | {"a60": {}}
            },
        ),
    ],
    ids=["endless", "doubling"],
)
def test_a_schema_that_would_never_finish_is_stopped(schemas: JsonSchemas, schema: str) -> None:
    began = time.monotonic()
    assert "too many steps" in schemas.problem(schema, {})
    assert time.monotonic() - began < QUICK_S
    assert schemas.problem(text(type="object"), {}) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*b",
        "(a|a)*b",
        "(a|ab)*c",
        r"(\w+\s?)*$",
        "(.*a){20}",
        "(a?){40}a{40}",
        "a?" * 40 + "a" * 40,
        "(a|a)" * 40,
        r"(a)\1",
        "([a-z]{1,40}){1,40}",
    ],
)
def test_a_pattern_that_could_take_for_ever_is_refused(schemas: JsonSchemas, pattern: str) -> None:
    with pytest.raises(UnsafePattern):
        compiled(pattern)
    assert "pattern" in schemas.check(text(pattern=pattern))
    assert "pattern" in schemas.check(text(patternProperties={pattern: {}}))


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("^[a-z]+(-[a-z]+)*$", "one-two", "one-"),
        (r"^\d{4}-\d{2}-\d{2}$", "2024-01-31", "24-1-1"),
        ("^(/[^/]+)+/?$", "/usr/lib/", "usr"),
        ("^([^,]*,)*end$", "a,b,end", "a;end"),
        ("^https?://", "https://x", "ftp://x"),
        ("^[0-9a-f]{32}$", "0" * 32, "0" * 31),
        ("^(GET|POST)$", "GET", "PUT"),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "a@b.c", "a@b"),
    ],
)
def test_usual_patterns_work(schemas: JsonSchemas, pattern: str, fits: str, fails: str) -> None:
    schema = text(pattern=pattern)
    assert schemas.check(schema) == ""
    assert schemas.problem(schema, fits) == ""
    assert "does not match" in schemas.problem(schema, fails)


@pytest.mark.parametrize("pattern", ["^.*.*.*=x", "x*x*x*y", "^[a-z]+(-[a-z]+)*$", "a?a?a?b*c*!x"])
def test_a_long_text_is_not_searched_for_long(pattern: str) -> None:
    ready = compiled(pattern)
    began = time.monotonic()
    assert not ready.search("x" * ready.longest + "!")
    assert time.monotonic() - began < QUICK_S


def test_a_text_that_is_too_long_for_its_pattern_is_a_problem(schemas: JsonSchemas) -> None:
    schema = text(pattern="^.*.*.*=x")
    assert "longer than" in schemas.problem(schema, "y" * 100_000)
    schema = text(patternProperties={"^.*.*.*=x": {}})
    assert "too long" in schemas.problem(schema, {"y" * 100_000: 1})


def test_many_items_are_compared_quickly(schemas: JsonSchemas) -> None:
    schema = text(uniqueItems=True)
    began = time.monotonic()
    assert schemas.problem(schema, [{"n": n} for n in range(50_000)]) == ""
    assert time.monotonic() - began < QUICK_S
    assert "not unique" in schemas.problem(schema, [{"n": 1}, {"n": 1.0}])
    assert schemas.problem(schema, [1, True, "1", None, [1], 1.5]) == ""


def test_true_and_false_are_schemas(schemas: JsonSchemas) -> None:
    assert schemas.check("true") == schemas.problem("true", 1) == schemas.check("false") == ""
    assert schemas.problem("false", 1) != ""


def test_formats_are_not_asserted(schemas: JsonSchemas) -> None:
    assert schemas.problem(text(format="ipv4"), "nonsense") == ""
