"""What a person types, as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from aiosd.ctl.arguments import Typed, parse_duration_ms, parse_object


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a=text", {"a": "text"}),
        ("a=", {"a": ""}),
        ("a=5", {"a": 5}),
        ("a=-1.5", {"a": -1.5}),
        ("a=true", {"a": True}),
        ("a=null", {"a": None}),
        ('a={"b":[1]}', {"a": {"b": [1]}}),
        ("a=[1,2]", {"a": [1, 2]}),
        ('a="quoted"', {"a": '"quoted"'}),
        ('a:="{not json"', {"a": "{not json"}),
        ("a=NaN", {"a": "NaN"}),
        ("a=12345678901234567890123", {"a": 12345678901234567890123}),
        ("a=b=c", {"a": "b=c"}),
        ('a:="5"', {"a": "5"}),
        ("a:=5", {"a": 5}),
        ("a.b.c=1", {"a": {"b": {"c": 1}}}),
        (r"a\.b=1", {"a.b": 1}),
    ],
)
def test_a_word_becomes_a_member(word: str, expected: dict[str, Any]) -> None:
    assert parse_object([word]) == expected


def test_words_join_and_replace() -> None:
    assert parse_object(["a.b=1", "a.c=2", "d=3"], '{"d":0,"e":4}') == {
        "a": {"b": 1, "c": 2},
        "d": 3,
        "e": 4,
    }


@pytest.mark.parametrize(
    "words",
    [
        ["no-equals"],
        ["=x"],
        [":=1"],
        ["a:=text"],
        ["a:=NaN"],
        ["a..b=1"],
        ["a=1", "a.b=2"],
        ["a={b"],
        ["a=[1"],
    ],
)
def test_what_cannot_be_read_is_named(words: list[str]) -> None:
    with pytest.raises(Typed) as refusal:
        parse_object(words)
    assert repr(words[-1]) in str(refusal.value)


@pytest.mark.parametrize("text", ["[1]", "5", "{", "null"])
def test_json_arguments_must_be_an_object(text: str) -> None:
    with pytest.raises(Typed):
        parse_object([], text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1500ms", 1500),
        ("30s", 30_000),
        ("2", 2_000),
        ("0.5s", 500),
        ("5m", 300_000),
        ("1h", 3_600_000),
    ],
)
def test_durations_have_units(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 week", "1e3"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(Typed):
        parse_duration_ms(text)
