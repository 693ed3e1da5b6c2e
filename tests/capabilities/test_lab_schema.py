"""Which scripts the lab takes, and how its parts become the contract's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from aiosd.capabilities import lab_parts
from aiosd.capabilities.lab_schema import INSTANCE_STATE, OPERATION_STEP, SCRIPT
from aiosd.capabilities.lab_steps import Script
from gateway.aios import parts as aios_parts

SCRIPTS = Draft202012Validator(SCRIPT)
STEPS: dict[str, Any] = {
    "sleep_ms": 10,
    "progress": {"percent": 1.5},
    "log": {"level": "debug", "message": ""},
    "artifact": {"name": "n", "parts": []},
    "chunk": {"artifact_id": "a", "append": True, "last": False, "parts": []},
    "ask": {"prompt": "?", "options": [{"id": "a", "label": "A", "value": {"any": "thing"}}]},
    "auth": {"type": "oauth2", "authorization_url": "https://a.example", "timeout_ms": 1},
    "message": {"text": "", "status": "failed", "stop_reason": "error"},
    "direct_message": {"text": "x"},
    "fail": {},
    "reject": {"reason": ""},
    "complete": {"result": None},
    "complete_twice": {"result": 1},
    "late_complete_ms": 0,
    "touch": "/effects",
    "crash": True,
    "freeze_ms": 1,
    "ignore_cancel": True,
    "by_attempt": [[], [{"crash": True}]],
}


def accepted(*steps: Any) -> bool:
    return bool(SCRIPTS.is_valid({"steps": list(steps)}))


def test_the_schemas_are_schemas() -> None:
    for schema in (SCRIPT, OPERATION_STEP, INSTANCE_STATE):
        Draft202012Validator.check_schema(schema)


def test_every_step_of_the_schema_can_be_carried_out() -> None:
    known = set(SCRIPT["$defs"]["step"]["properties"])
    assert known == set(STEPS) == {*Script._acts, "by_attempt"}


@pytest.mark.parametrize("kind", STEPS)
def test_a_good_step_is_taken(kind: str) -> None:
    assert accepted({kind: STEPS[kind]})


@pytest.mark.req("R014")
@pytest.mark.parametrize(
    "step",
    [
        {},
        {"nothing_like_it": 1},
        {"sleep_ms": 1, "crash": True},
        {"sleep_ms": -1},
        {"sleep_ms": "1"},
        {"sleep_ms": 1.5},
        {"progress": {}},
        {"progress": {"percent": 101}},
        {"log": {"level": "loud", "message": "x"}},
        {"log": "x"},
        {"artifact": {"parts": []}},
        {"artifact": {"name": "n"}},
        {"ask": {}},
        {"ask": {"prompt": "?", "options": [{"label": "no id"}]}},
        {"ask": {"prompt": "?", "unknown": 1}},
        {"auth": {"type": "approval"}},
        {"auth": {}},
        {"message": {"text": "x", "status": "done"}},
        {"reject": {}},
        {"touch": "relative"},
        {"by_attempt": []},
        {"by_attempt": [[{"sleep_ms": -1}]]},
        "sleep",
        None,
    ],
)
def test_a_malformed_step_is_refused(step: Any) -> None:
    assert not accepted(step)


def test_steps_must_be_a_list_and_may_be_absent() -> None:
    assert SCRIPTS.is_valid({})
    assert SCRIPTS.is_valid({"scope": "files/*"})
    assert not SCRIPTS.is_valid({"steps": {}})
    assert not SCRIPTS.is_valid([])


DATA_URI = "data:text/plain;base64,aGk="
PARTS = [
    {"type": "text", "text": ""},
    {"type": "text", "text": "hi", "metadata": {"k": 1}},
    {"type": "data", "data": {"deep": [1, None]}},
    {"type": "file", "file": {"uri": "https://x/y", "mime_type": "a/b", "size": 3}},
    {"type": "file", "file": {"uri": "https://x/y", "mime_type": "image/png"}},
    {
        "type": "file",
        "file": {"uri": "data:text/plain;base64,aGk=", "mime_type": "text/plain", "size": 2},
    },
    {"type": "file", "file": {"uri": "data:text/plain;base64,aGk="}},
    {"type": "image", "image": {"uri": "https://x/y", "mime_type": "image/png"}},
    {"type": "image", "image": {"uri": "https://x/y"}},
    {"type": "audio", "audio": {"uri": "https://x/y", "duration_ms": 1200}},
    {"type": "video", "video": {"uri": "https://x/y", "duration_ms": 0, "x-third": "party"}},
]


@pytest.mark.req("R084", "R088")
@pytest.mark.parametrize("part", PARTS)
def test_a_part_comes_back_from_the_aios_wire_as_it_was_given(part: dict[str, Any]) -> None:
    assert accepted({"artifact": {"name": "n", "parts": [part]}})
    parsed = lab_parts.parse(part)
    assert aios_parts.render_part(parsed) == part
    assert parsed == aios_parts.parse_part(part)


@pytest.mark.req("R083")
@pytest.mark.parametrize(
    "part",
    [
        {},
        {"text": "no type"},
        {"type": "text"},
        {"type": "text", "data": {}},
        {"type": "text", "text": "a", "data": {}},
        {"type": "text", "text": 1},
        {"type": "data", "data": []},
        {"type": "file", "file": {}},
        {"type": "image", "file": {"uri": "x"}},
        {"type": "audio", "audio": {"uri": "x", "duration_ms": -1}},
        {"type": "thought", "thought": "x"},
    ],
)
def test_a_part_with_no_content_or_two_is_refused(part: dict[str, Any]) -> None:
    assert not accepted({"artifact": {"name": "n", "parts": [part]}})
    assert not accepted({"chunk": {"artifact_id": "a", "parts": [part]}})


def test_every_step_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text("utf-8")
    table = page.partition("<!-- steps")[2].partition("<!-- end of steps")[0]
    assert set(re.findall(r'^\| `\{"(\w+)"', table, re.MULTILINE)) == set(STEPS)
