"""Commands as tasks: real processes, looked at in /proc."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.v1 import event_pb2
from aiosd.capabilities import process_run
from aiosd.capabilities.provide import make_provider
from tests.capabilities.conftest import eventually, pids_of

if TYPE_CHECKING:
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import Attempt, ReferenceDaemon

SHELL = "/bin/sh"


@pytest.fixture
def marker() -> str:
    """Stands in the arguments of everything that a test starts, so that it can be found."""
    return f"marker-{uuid.uuid4().hex}"


async def begin(daemon: ReferenceDaemon, *argv: str, **arguments: Any) -> Attempt:
    return await daemon.begin(
        process_run.CAPABILITY_ID, json.dumps({"argv": list(argv), **arguments})
    )


def text_of(attempt: Attempt, name: str) -> str:
    """The text of an artifact, from all its chunks."""
    chunks = [
        report.artifact_chunk for report in attempt.stored if report.HasField("artifact_chunk")
    ]
    ids = {chunk.artifact_id for chunk in chunks if chunk.name == name}
    return "".join(
        part.text for chunk in chunks if chunk.artifact_id in ids for part in chunk.parts
    )


async def test_output_becomes_log_lines_and_artifacts(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", "echo one; echo two >&2; printf three")
        ending = await daemon.ended(attempt)
    logged = [report.log for report in attempt.stored if report.HasField("log")]
    assert {(entry.level, entry.message) for entry in logged} == {
        (event_pb2.LOG_LEVEL_INFO, "one"),
        (event_pb2.LOG_LEVEL_WARN, "two"),
        (event_pb2.LOG_LEVEL_INFO, "three"),
    }
    assert text_of(attempt, "stdout") == "one\nthree"
    assert text_of(attempt, "stderr") == "two\n"
    result = json.loads(ending.completed.result)
    assert result["exit_code"] == 0
    assert result["duration_ms"] >= 0


async def test_an_exit_code_fails_the_task_after_its_output_is_stored(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", "echo why; exit 3")
        failure = (await daemon.ended(attempt)).failed
    assert (failure.reason, failure.code, failure.retryable) == ("exit_code", -32603, False)
    assert json.loads(failure.data)["exit_code"] == 3
    assert text_of(attempt, "stdout") == "why\n"


async def test_a_signal_fails_the_task_and_is_named(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", "kill -SEGV $$")
        failure = (await daemon.ended(attempt)).failed
    assert failure.reason == "signal"
    assert json.loads(failure.data)["signal"] == "SIGSEGV"
    assert json.loads(failure.data)["exit_code"] == 128 + signal.SIGSEGV


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"argv": ["no-such-program-anywhere"]}, "argv[0]"),
        ({"argv": ["/no/such/program"]}, "argv[0]"),
        ({"argv": ["/etc/passwd"]}, "argv[0]"),
        ({"argv": ["./relative"]}, "argv[0]"),
        ({"argv": ["/bin/true"], "cwd": "/no/such/directory"}, "cwd"),
    ],
)
async def test_what_cannot_be_run_fails_and_names_the_argument(
    daemon: ReferenceDaemon, attach: Attach, arguments: dict[str, Any], field: str
) -> None:
    async with attach(make_provider()):
        attempt = await daemon.begin(process_run.CAPABILITY_ID, json.dumps(arguments))
        failure = (await daemon.ended(attempt)).failed
    assert failure.reason == "argument_invalid"
    assert failure.message.startswith(f"{field}: ")
    assert json.loads(failure.data) == {"field": field}


@pytest.mark.req("S-36")
async def test_a_command_sees_no_environment_but_the_allowed_one(
    daemon: ReferenceDaemon, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSD_TOKEN", "secret")
    monkeypatch.setenv("PASSWORD", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with attach(make_provider()):
        attempt = await begin(daemon, "env", env={"ADDED": "yes"})
        await daemon.ended(attempt)
    names = {line.partition("=")[0] for line in text_of(attempt, "stdout").splitlines()}
    assert {"PATH", "LANG", "ADDED"} <= names
    assert not names & {"AIOSD_TOKEN", "PASSWORD"}


@pytest.mark.req("S-36")
async def test_a_command_runs_in_its_own_session_and_private_directory_without_new_rights(
    daemon: ReferenceDaemon, attach: Attach
) -> None:
    script = (
        "stat -c %a .; ls -A | wc -l; cut -d' ' -f6 /proc/self/stat | grep -c $$; "
        "grep NoNewPrivs /proc/self/status; ulimit -c; cat; ls /proc/self/fd | wc -l; pwd"
    )
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", script)
        await daemon.ended(attempt)
    mode, entries, sessions, privileges, core, descriptors, place = text_of(
        attempt, "stdout"
    ).splitlines()
    assert (mode, entries, sessions, core) == ("700", "0", "1", "0")
    assert privileges.split() == ["NoNewPrivs:", "1"]
    assert int(descriptors) == 4  # three streams, and the listing's own
    await eventually(lambda: not Path(place).exists())


async def test_text_reaches_standard_input(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, "cat", stdin="a\nb")
        await daemon.ended(attempt)
        deaf = await begin(daemon, "true", stdin="x" * 1_000_000)
        assert (await daemon.ended(deaf)).HasField("completed")
    assert text_of(attempt, "stdout") == "a\nb"


async def test_kept_output_is_capped_and_says_so(daemon: ReferenceDaemon, attach: Attach) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", "printf '%05000d' 0", output_limit_bytes=1000)
        await daemon.ended(attempt)
    assert text_of(attempt, "stdout") == "0" * 1000 + "\n[... truncated: 4000 more bytes]\n"


@pytest.mark.req("H16")
async def test_cancel_leaves_no_process_even_of_those_that_hide_from_it(
    daemon: ReferenceDaemon, attach: Attach, marker: str
) -> None:
    stubborn = f"trap '' TERM HUP INT; : {marker}; while :; do sleep 1; done"
    script = f'(setsid {SHELL} -c "{stubborn}" &); {SHELL} -c "{stubborn}" & {stubborn}'
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", script)
        await eventually(lambda: len(pids_of(marker)) >= 3)
        daemon.cancel(attempt)
        ending = await daemon.ended(attempt)
        assert pids_of(marker) == {}
    assert ending.HasField("canceled")


async def test_cancel_asks_before_it_forces(
    daemon: ReferenceDaemon, attach: Attach, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    script = f"trap 'echo asked > {said}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", script)
        await daemon.stored(attempt, "log")
        daemon.cancel(attempt)
        await daemon.ended(attempt)
    assert said.read_text() == "asked\n"


@pytest.mark.req("R027", "R028")
async def test_pause_stops_the_whole_tree_and_resume_lets_it_go_on(
    daemon: ReferenceDaemon, attach: Attach, marker: str, tmp_path: Path
) -> None:
    loop = f"while [ ! -e stop ]; do : {marker}; sleep 0.02; done"
    script = f"(setsid {SHELL} -c '{loop}' &) ; {SHELL} -c '{loop}' & sleep 0.1; {loop}"
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", script, cwd=str(tmp_path))
        await eventually(lambda: len(pids_of(marker)) >= 3)
        name = {"task_id": attempt.task.task_id, "attempt": 1}
        daemon.send(pause=wire.Pause(**name))
        await daemon.stored(attempt, "paused")
        # D: a shell that waits between vfork and exec for its child, which is stopped.
        assert {"T"} <= set(pids_of(marker).values()) <= {"T", "D"}
        daemon.send(resume=wire.Resume(**name))
        await daemon.stored(attempt, "resumed")
        await eventually(lambda: not {"T", "D"} & set(pids_of(marker).values()))
        daemon.cancel(attempt)
        await daemon.ended(attempt)
        assert pids_of(marker) == {}


async def test_a_paused_command_can_be_canceled(
    daemon: ReferenceDaemon, attach: Attach, marker: str
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", f": {marker}; while :; do sleep 1; done")
        await eventually(lambda: pids_of(marker))
        daemon.send(pause=wire.Pause(task_id=attempt.task.task_id, attempt=1))
        await daemon.stored(attempt, "paused")
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")
        assert pids_of(marker) == {}


async def test_what_a_command_leaves_behind_ends_with_it(
    daemon: ReferenceDaemon, attach: Attach, marker: str
) -> None:
    script = f"(setsid {SHELL} -c ': {marker}; sleep 60; :' &) ; sleep 0.2; echo done"
    async with attach(make_provider()):
        attempt = await begin(daemon, SHELL, "-c", script)
        await daemon.ended(attempt)
        assert pids_of(marker) == {}


@pytest.mark.req("S-37")
async def test_a_provider_that_is_killed_takes_its_commands_with_it(
    daemon: ReferenceDaemon, marker: str
) -> None:
    code = (
        "import asyncio; from aiosd.capabilities.provide import provide; "
        f"asyncio.run(provide(address={daemon.address!r}))"
    )
    provider = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert provider.stdout is not None
    try:
        assert json.loads(await provider.stdout.readline()) == {"ready": True, "name": "system"}
        await begin(
            daemon, SHELL, "-c", f"(setsid {SHELL} -c ': {marker}; sleep 60; :' &) ; cat; sleep 60"
        )
        await eventually(lambda: pids_of(marker))
        provider.kill()
        await provider.wait()
        await eventually(lambda: not pids_of(marker))
    finally:
        if provider.returncode is None:
            provider.kill()
            await provider.wait()
