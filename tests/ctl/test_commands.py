"""`aiosctl` against a real daemon and the lab."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd.ctl.exit_code import ExitCode

if TYPE_CHECKING:
    from tests.ctl.conftest import Aiosctl

pytestmark = pytest.mark.e2e

ASK = {"ask": {"prompt": "Which?", "options": [{"id": "a", "label": "A"}]}}
SLEEP = {"sleep_ms": 600_000}
REPORT = {
    "artifact": {
        "name": "report.md",
        "mime_type": "text/markdown",
        "parts": [{"type": "text", "text": "# hi"}],
    }
}


def steps(*each: object) -> str:
    return f"steps:={json.dumps(each)}"


def test_run_prints_the_result_and_nothing_else_on_stdout(aiosctl: Aiosctl) -> None:
    ran = aiosctl("run", "lab.script", steps({"complete": {"result": {"n": 12345678901234567890}}}))
    assert (ran.code, ran.json, ran.err) == (0, {"n": 12345678901234567890}, "")


def test_run_shows_what_happens_on_stderr(aiosctl: Aiosctl) -> None:
    script = steps({"progress": {"percent": 40, "message": "half"}}, {"log": {"message": "hey"}})
    ran = aiosctl("run", "lab.script", script, "--watch")
    assert ran.json == {"inputs": [], "attempt": 1}
    assert "40% half" in ran.err
    assert "info: hey" in ran.err
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("script", "options", "code"),
    [
        ([{"fail": {"message": "no luck"}}], [], ExitCode.FAILED),
        ([{"reject": {"reason": "no luck"}}], [], ExitCode.FAILED),
        ([ASK], [], ExitCode.INPUT_REQUIRED),
        ([{"auth": {"type": "api_key"}}], [], ExitCode.AUTH_REQUIRED),
        ([SLEEP], ["--timeout", "100ms"], ExitCode.TIMEOUT),
    ],
)
def test_the_exit_code_tells_the_end(
    aiosctl: Aiosctl, script: list[object], options: list[str], code: ExitCode
) -> None:
    ran = aiosctl("run", "lab.script", steps(*script), *options)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("task-")


def test_refusals_are_one_clear_line(aiosctl: Aiosctl) -> None:
    unknown = aiosctl("run", "no.such.capability")
    assert unknown.code == ExitCode.FAILED
    assert re.fullmatch(r"aiosctl: CAPABILITY_NOT_FOUND: .*no\.such\.capability.*\n", unknown.err)
    malformed = aiosctl("run", "lab.script", "steps=[{}]")
    assert malformed.code == ExitCode.FAILED
    assert malformed.err.startswith("aiosctl: ARGUMENTS_REJECTED: ")
    missing = aiosctl("get", "task-none")
    assert missing.err.startswith("aiosctl: TASK_NOT_FOUND: ")
    assert missing.err.count("\n") == 1


def test_usage_errors_exit_with_two(aiosctl: Aiosctl) -> None:
    for words in (
        ["run"],
        ["run", "lab.script", "no-equals"],
        ["run", "lab.script", "--timeout", "soon"],
        ["run", "lab.script", "--priority", "best"],
        ["list", "--state", "asleep"],
        ["input", "task-x"],
        ["auth", "task-x"],
        ["no-such-command"],
        ["list", "-o", "xml"],
        ["get", "\udcff"],
        ["run", "lab.script", "a=\udcff"],
        ["run", "lab.script", "a=[1"],
        ["run", "lab.script", "--timeout", "9" * 30],
        ["run", "lab.script", "--idempotency-key", ""],
    ):
        ran = aiosctl(*words)
        assert (ran.code, ran.out) == (ExitCode.USAGE, ""), words
        assert ran.err


def test_no_daemon_is_exit_code_69_in_one_line(aiosctl: Aiosctl, tmp_path: Path) -> None:
    for words in (["list"], ["run", "lab.script"], ["watch", "task-x"]):
        ran = aiosctl(*words, "--socket", str(tmp_path / "none.sock"))
        assert ran.code == ExitCode.UNREACHABLE
        assert ran.err.startswith(f"aiosctl: no daemon answers at unix:{tmp_path}")
        assert ran.err.count("\n") == 1
    ill = aiosctl("doctor", "-o", "json", "--socket", str(tmp_path / "none.sock"))
    assert ill.code == ExitCode.UNREACHABLE
    assert [item["check"] for item in ill.json if not item["ok"]] == ["address", "daemon"]


def test_a_conversation_from_question_to_result(aiosctl: Aiosctl, tmp_path: Path) -> None:
    task = aiosctl.start(ASK, {"auth": {"type": "password", "provider": "mail"}})
    assert aiosctl("wait", task).code == ExitCode.INPUT_REQUIRED
    shown = aiosctl("get", task)
    assert "Asks:       Which?" in shown.out
    wrong = aiosctl("input", task, "choice=z")
    assert wrong.err.startswith("aiosctl: INPUT_REJECTED: ")
    assert aiosctl("input", task, "choice=a").code == 0
    assert aiosctl("wait", task).code == ExitCode.AUTH_REQUIRED
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    granted = aiosctl("auth", task, "--username", "me", "--password", f"@{secret}")
    assert granted.code == 0
    assert aiosctl("wait", task).code == ExitCode.COMPLETED
    history = aiosctl("get", task, "--history", "-o", "json")
    assert history.json["result"] == {"inputs": [{"choice": "a"}], "attempt": 1}
    assert [change["state"] for change in history.json["state_history"]] == [
        *("submitted", "working", "input_required", "working"),
        *("auth_required", "working", "completed"),
    ]
    assert "hunter2" not in history.out + aiosctl("events", task, "-o", "json").out


def test_a_secret_can_come_from_stdin(aiosctl: Aiosctl) -> None:
    task = aiosctl.start({"auth": {"type": "api_key"}})
    assert aiosctl("wait", task).code == ExitCode.AUTH_REQUIRED
    assert aiosctl("auth", task, "--api-key", "-", stdin="k123\n").code == 0
    assert aiosctl("wait", task).code == 0


@pytest.mark.req("R026", "R027", "R028")
def test_pause_resume_and_cancel(aiosctl: Aiosctl) -> None:
    task = aiosctl.start({"log": {"message": "up"}}, SLEEP)
    assert aiosctl("pause", task, "-o", "json").json["state"] == "paused"
    again = aiosctl("pause", task)
    assert (again.code, again.out) == (ExitCode.FAILED, "")
    assert again.err.startswith("aiosctl: TASK_STATE_INVALID: ")
    assert aiosctl("resume", task).out.startswith(f"{task}  working")
    canceled = aiosctl("cancel", task, "--reason", "enough")
    assert canceled.out == f"{task}  canceled (enough)\n"
    for spelling in ("canceled", "cancelled"):
        listed = aiosctl("list", "--state", spelling, "-o", "json").json
        assert task in [one["task_id"] for one in listed]
    assert aiosctl("wait", task).code == ExitCode.CANCELED
    assert aiosctl("watch", task).code == ExitCode.CANCELED


def test_lists_in_three_formats(aiosctl: Aiosctl) -> None:
    task = aiosctl.start(SLEEP)
    working = aiosctl("list", "--state", "working", "--state", "submitted", "-o", "json")
    assert task in [one["task_id"] for one in working.json]
    lines = aiosctl("-o", "jsonl", "ps", "--capability", "lab.*").lines
    assert task in [one["task_id"] for one in lines]
    header, *rows = aiosctl("ps").out.splitlines()
    assert header.split()[:2] == ["TASK", "STATE"]
    assert any(row.startswith(task) for row in rows)
    assert len(aiosctl("list", "-n", "1", "-o", "json").json) == 1
    aiosctl("cancel", task)


def test_events_and_logs_can_be_read_and_followed(aiosctl: Aiosctl) -> None:
    task = aiosctl.start({"log": {"level": "warn", "message": "one"}}, ASK)
    assert aiosctl("wait", task).code == ExitCode.INPUT_REQUIRED
    so_far = aiosctl("events", task, "-o", "jsonl").lines
    assert [event["sequence"] for event in so_far] == list(range(1, len(so_far) + 1))
    assert aiosctl("logs", task).out == "WARN   one\n"
    rest = aiosctl("events", task, "--after", str(len(so_far)), "-o", "jsonl")
    assert rest.out == ""
    aiosctl("input", task, "choice=a")
    followed = aiosctl("events", task, "--follow", "-o", "jsonl").lines
    assert followed[: len(so_far)] == so_far
    assert followed[-1]["result_stored"]["result"]["inputs"] == [{"choice": "a"}]
    watched = aiosctl("watch", task, "-o", "jsonl")
    assert (watched.code, watched.lines) == (0, followed)


def test_artifacts_are_listed_printed_and_saved(aiosctl: Aiosctl, tmp_path: Path) -> None:
    task = aiosctl.start(REPORT)
    aiosctl("wait", task)
    (artifact,) = aiosctl("artifacts", task, "-o", "json").json
    assert (artifact["name"], artifact["sealed"]) == ("report.md", True)
    assert aiosctl("artifact", "get", artifact["artifact_id"], "--task", task).out == "# hi"
    saved = aiosctl("artifacts", task, "--save", str(tmp_path / "new"))
    assert saved.out == f"{tmp_path / 'new' / 'report.md'}\n"
    assert Path(saved.out.strip()).read_text() == "# hi"
    unknown = aiosctl("artifact", "get", "art-none")
    assert unknown.err.startswith("aiosctl: ARTIFACT_NOT_FOUND: ")


def test_the_same_idempotency_key_gives_the_same_task(aiosctl: Aiosctl) -> None:
    words = ("run", "lab.script", "--idempotency-key", "once", "-o", "json")
    first, second = aiosctl(*words), aiosctl(*words)
    assert first.json["task_id"] == second.json["task_id"]
    other = aiosctl("run", "lab.script", "steps=[]", "--idempotency-key", "once")
    assert other.err.startswith("aiosctl: REQUEST_ID_CONFLICT: ")


def test_what_there_is(aiosctl: Aiosctl) -> None:
    capabilities = aiosctl("capabilities", "lab", "-o", "json").json
    assert len(capabilities) == 9
    one = aiosctl("capability", "lab.script.brief").json
    assert one["default_timeout_ms"] == 500
    assert one["input_schema"]["$defs"]
    (lab,) = aiosctl("providers", "-o", "json").json
    assert lab["name"] == "lab"
    assert aiosctl("info", "-o", "json").json["limits"]["max_tasks_per_tool"] == 10
    well = aiosctl("doctor")
    assert (well.code, "PROBLEM" in well.out) == (0, False)
    assert aiosctl("--version").out.startswith("aiosctl ")


def test_a_token_file_that_cannot_be_read_is_named(aiosctl: Aiosctl, tmp_path: Path) -> None:
    ran = aiosctl("list", "--token-file", str(tmp_path / "none"))
    assert ran.code == ExitCode.USAGE
    assert ran.err.startswith("aiosctl: cannot read the token file ")


def test_an_interrupted_wait_leaves_the_task_alone(aiosctl: Aiosctl) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "aiosd.ctl", "run", "lab.script", steps(SLEEP), "--watch"],
        env=aiosctl.programs.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    while "working" not in waiting.stderr.readline():
        pass
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (ExitCode.INTERRUPTED, "")
    (task,) = re.findall(r"the task goes on: aiosctl watch\|cancel (task-\w+)", err)
    assert aiosctl("get", task, "-o", "json").json["state"] == "working"
    aiosctl("cancel", task)


@pytest.mark.parametrize("plain", [False, True])
def test_a_bar_moves_on_a_terminal_unless_no_color_is_set(aiosctl: Aiosctl, plain: bool) -> None:
    script = steps({"progress": {"percent": 40, "message": "half"}}, {"log": {"message": "hey"}})
    leader, follower = os.openpty()
    environ = {**aiosctl.programs.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "aiosd.ctl", "run", "lab.script", script, "--watch"],
            env=environ | ({"NO_COLOR": "1"} if plain else {}),
            stdout=subprocess.PIPE,
            stderr=follower,
            timeout=60,
            check=True,
        )
        shown = os.read(leader, 65536).decode()
    finally:
        os.close(leader)
        os.close(follower)
    assert json.loads(done.stdout) == {"inputs": [], "attempt": 1}
    assert "info: hey" in shown
    assert ("\x1b[" in shown) is not plain
    assert ("━" in shown) is not plain
