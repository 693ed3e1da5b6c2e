"""Nothing that comes from elsewhere steers a terminal or leaves the directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aiosd.api.v1 import artifact_pb2, content_pb2, event_pb2, operation_pb2, task_pb2
from aiosd.ctl import output
from aiosd.ctl.exit_code import ExitCode, of_task
from aiosd.ctl.output import Format, Output
from aiosd.ctl.plain import plain
from aiosd.ctl.saving import content, safe_name, save_artifact
from aiosd.ctl.timeline import line

if TYPE_CHECKING:
    from pathlib import Path

EVENT_KINDS = [field.name for field in event_pb2.Event.DESCRIPTOR.oneofs[0].fields]
HOSTILE = "a\x1b]0;title\x07b\x9b31mc\u202ed"


@pytest.mark.req("S-38")
def test_controls_are_taken_out_of_what_people_read(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("A",), [(HOSTILE,)])
    Output().line(HOSTILE)
    Output().note(HOSTILE)
    output.complain(f"{HOSTILE}\nsecond line")
    said = "".join(capsys.readouterr())
    assert not set(said) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "second line" in said.splitlines()[-1]


@pytest.mark.req("S-38")
def test_controls_are_escaped_in_json_and_can_be_read_back() -> None:
    text = output.to_json({"a": HOSTILE})
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert json.loads(text) == {"a": HOSTILE}


def test_formats_write_the_same_data(capsys: pytest.CaptureFixture[str]) -> None:
    values = [{"n": 1}, {"n": 2}]
    Output(Format.json).rows(("N",), [("1",), ("2",)], values)
    assert json.loads(capsys.readouterr().out) == values
    Output(Format.jsonl).rows(("N",), [("1",), ("2",)], values)
    assert [json.loads(text) for text in capsys.readouterr().out.splitlines()] == values
    Output(Format.table).rows(("N",), [("1",), ("2",)], values)
    assert capsys.readouterr().out == "N\n1\n2\n"


def test_messages_become_plain_values() -> None:
    task = task_pb2.Task(
        task_id="t",
        arguments='{"n":12345678901234567890}',
        state=task_pb2.TASK_STATE_INPUT_REQUIRED,
        state_reason="why",
        revision=2**60,
    )
    task.create_time.FromMilliseconds(1_500)
    task.options.timeout.FromMilliseconds(250)
    task.options.priority = task_pb2.PRIORITY_URGENT
    assert plain(task) == {
        "task_id": "t",
        "arguments": {"n": 12345678901234567890},
        "state": "input_required",
        "state_reason": "why",
        "revision": 2**60,
        "create_time": "1970-01-01T00:00:01.500Z",
        "options": {"timeout_ms": 250, "priority": "urgent"},
    }
    assert plain(operation_pb2.Instance(state='{"model":"m"}')) == {"state": {"model": "m"}}
    assert plain(content_pb2.Part(raw=b"\x00")) == {"raw": "AA=="}
    assert plain(content_pb2.Part(data="null")) == {"data": None}


@pytest.mark.parametrize(
    ("state", "reason", "outcome", "code"),
    [
        ("COMPLETED", "", "CERTAIN", ExitCode.COMPLETED),
        ("FAILED", "error", "CERTAIN", ExitCode.FAILED),
        ("FAILED", "timeout", "UNCERTAIN", ExitCode.TIMEOUT),
        ("FAILED", "wait_expired", "CERTAIN", ExitCode.TIMEOUT),
        ("FAILED", "agent_lost", "UNCERTAIN", ExitCode.UNCERTAIN),
        ("REJECTED", "rejected", "NOT_STARTED", ExitCode.FAILED),
        ("CANCELED", "", "CERTAIN", ExitCode.CANCELED),
        ("INPUT_REQUIRED", "", "UNSPECIFIED", ExitCode.INPUT_REQUIRED),
        ("AUTH_REQUIRED", "", "UNSPECIFIED", ExitCode.AUTH_REQUIRED),
        ("WORKING", "", "UNSPECIFIED", ExitCode.TIMEOUT),
        ("PAUSED", "", "UNSPECIFIED", ExitCode.TIMEOUT),
    ],
)
def test_the_exit_code_tells_how_a_task_stands(
    state: str, reason: str, outcome: str, code: ExitCode
) -> None:
    task = task_pb2.Task(
        state=task_pb2.TaskState.Value(f"TASK_STATE_{state}"),
        outcome=task_pb2.Outcome.Value(f"OUTCOME_{outcome}"),
    )
    if reason:
        task.failure.reason = reason
    assert of_task(task) is code


@pytest.mark.parametrize(
    "kind", [field.name for field in event_pb2.Event.DESCRIPTOR.oneofs[0].fields]
)
def test_every_event_has_a_line(kind: str) -> None:
    event = event_pb2.Event(task_id="t", sequence=1)
    getattr(event, kind).SetInParent()
    assert line(event)


def test_an_event_of_a_later_version_has_a_line_too() -> None:
    assert "unknown" in line(event_pb2.Event(task_id="t", sequence=1))


@pytest.mark.req("S-34")
@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.md", "report.md"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("/etc/passwd", "_etc_passwd"),
        (".bashrc", "bashrc"),
        ("..", ""),
        ("a\x00b\x1b\u202ec", "a_b_c"),
        ("x" * 500, "x" * 120),
    ],
)
def test_names_stay_inside_the_directory(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_an_artifact_is_saved_by_kinds_and_overwrites_nothing(tmp_path: Path) -> None:
    artifact = artifact_pb2.Artifact(artifact_id="a", name="out.txt", mime_type="text/plain")
    artifact.parts.add(text="one ")
    artifact.parts.add(text="two")
    artifact.parts.add(data='{"n":1}')
    artifact.parts.add(raw=b"\x89PNG", filename="../pic.png", media_type="image/png")
    first = save_artifact(artifact, tmp_path)
    assert [path.name for path in first] == ["out.txt", "out.json", "_pic.png"]
    assert first[0].read_text() == "one two"
    assert json.loads(first[1].read_text()) == {"n": 1}
    assert first[2].read_bytes() == b"\x89PNG"
    again = save_artifact(artifact, tmp_path)
    assert [path.name for path in again] == ["out-1.txt", "out-1.json", "_pic-1.png"]


def test_content_is_everything_in_order() -> None:
    parts = [
        content_pb2.Part(text=""),
        content_pb2.Part(url="https://x"),
        content_pb2.Part(raw=b"r"),
    ]
    assert content(parts) == b"https://x\nr"
