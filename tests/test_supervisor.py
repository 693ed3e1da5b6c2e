"""`up` over real processes: readiness, restarts, order of the stop, and nobody left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.supervisor import BackOff, ChildSpec, StartFailedError, Supervisor, Timing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

DEADLINE_S = 20.0
QUICK = Timing(ready_s=10, stop_s=5, first_delay_s=0.01, longest_delay_s=0.05)

CHILD = """
import json, os, pathlib, signal, sys, time
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
def note(what):
    with (folder / "notes").open("a") as notes:
        notes.write(f"{name} {what}\\n")
def stop(*_):
    note("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
note("started")
def ready(**said):
    print(json.dumps({"ready": True, "pid": os.getpid(), **said}), flush=True)
"""
WAIT = "\nwhile True: time.sleep(60)\n"


class Lines:
    """What the supervisor wrote, to wait on."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()

    def write(self, line: Any) -> None:
        self.all.append(dict(line))
        self.arrived.set()

    async def count(self, number: int) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.all) < number:
                self.arrived.clear()
                await self.arrived.wait()
        return self.all[number - 1]


def child(folder: Path, name: str, body: str = "ready()", **more: Any) -> ChildSpec:
    argv = (sys.executable, "-c", CHILD + body + WAIT, str(folder), name)
    return ChildSpec(name, argv, dict(os.environ), **more)


def notes(folder: Path) -> list[str]:
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - a file of another process sets no event
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@asynccontextmanager
async def running(*specs: ChildSpec, timing: Timing = QUICK) -> AsyncIterator[Lines]:
    lines = Lines()
    supervisor = Supervisor(specs, write=lines.write, timing=timing)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run())
        await lines.count(1)
        yield lines
        supervisor.stop()


async def test_one_line_says_that_everything_is_ready(tmp_path: Path) -> None:
    daemon = child(
        tmp_path, "daemon", "ready(version='x', socket='/s', token_file='/t', http=None, extra=1)"
    )
    gateway = child(
        tmp_path, "gateway", "print('noise', flush=True); ready(http='http://h:1', socket='/other')"
    )

    async with running(daemon, gateway, child(tmp_path, "lab")) as lines:
        line = lines.all[0]

    pids = line["pids"]
    assert list(line) == ["ready", "version", "pid", "pids", "socket", "http", "token_file"]
    assert line["ready"] is True and line["pid"] == os.getpid()
    assert (line["socket"], line["http"], line["token_file"]) == ("/s", "http://h:1", "/t")
    assert list(pids) == ["daemon", "gateway", "lab"] and len(set(pids.values())) == 3
    assert len(lines.all) == 1


async def test_the_others_start_when_the_first_is_ready(tmp_path: Path) -> None:
    slow = "while not (folder / 'go').exists(): time.sleep(0.01)\nnote('ready'); ready()"
    first = child(tmp_path, "daemon", slow)

    lines = Lines()
    supervisor = Supervisor([first, child(tmp_path, "gateway")], write=lines.write, timing=QUICK)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervisor.run())
        await until(lambda: "daemon started" in notes(tmp_path))
        (tmp_path / "go").touch()
        await lines.count(1)
        supervisor.stop()

    assert notes(tmp_path)[:3] == ["daemon started", "daemon ready", "gateway started"]


async def test_children_stop_in_reverse_order(tmp_path: Path) -> None:
    names = ["daemon", "gateway", "provider", "lab"]

    async with running(*(child(tmp_path, name) for name in names)):
        pass

    stops = [note for note in notes(tmp_path) if note.endswith("stopped")]
    assert stops == [f"{name} stopped" for name in reversed(names)]


async def test_a_killed_child_is_started_again_and_said_so(tmp_path: Path) -> None:
    async with running(child(tmp_path, "daemon"), child(tmp_path, "lab")) as lines:
        first = lines.all[0]["pids"]["lab"]
        os.kill(first, signal.SIGKILL)
        line = await lines.count(2)
        assert line == {"restarted": "lab", "pid": line["pid"]}
        assert line["pid"] != first and alive(line["pid"])

        os.kill(line["pid"], signal.SIGKILL)
        assert (await lines.count(3))["restarted"] == "lab"

    assert notes(tmp_path).count("daemon started") == 1
    assert notes(tmp_path).count("lab started") == 3


async def test_a_child_that_exits_by_itself_is_started_again(tmp_path: Path) -> None:
    body = "ready()\nwhile not (folder / 'go').exists(): time.sleep(0.01)\n"
    body += "(folder / 'go').unlink(); sys.exit(0)"

    async with running(child(tmp_path, "daemon", body)) as lines:
        (tmp_path / "go").touch()
        assert (await lines.count(2))["restarted"] == "daemon"


async def test_a_child_without_readiness_line_is_ready_at_once(tmp_path: Path) -> None:
    silent = child(tmp_path, "silent", "", ready=False)

    async with running(silent) as lines:
        assert alive(lines.all[0]["pids"]["silent"])


async def test_a_port_that_was_chosen_stays_after_a_restart(tmp_path: Path) -> None:
    body = "note(os.environ.get('PORT', 'any')); ready(http='h:81')"

    def pin(said: Any) -> dict[str, str]:
        return {"PORT": said["http"]}

    async with running(child(tmp_path, "gateway", body, pin=pin)) as lines:
        os.kill(lines.all[0]["pids"]["gateway"], signal.SIGKILL)
        await lines.count(2)

    assert [note for note in notes(tmp_path) if "start" not in note and "stop" not in note] == [
        "gateway any",
        "gateway h:81",
    ]


async def test_a_child_that_gives_up_at_the_start_stops_all_with_its_code(tmp_path: Path) -> None:
    supervisor = Supervisor(
        [child(tmp_path, "daemon"), child(tmp_path, "gateway", "sys.exit(75)")],
        write=lambda line: pytest.fail(f"wrote {line}"),
        timing=QUICK,
    )

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(StartFailedError) as failed:
            await supervisor.run()

    assert (failed.value.name, failed.value.returncode) == ("gateway", 75)
    assert str(failed.value).startswith("gateway ended with code 75 before everything was ready")
    assert "daemon stopped" in notes(tmp_path)


async def test_a_child_killed_during_the_start_gets_another_chance(tmp_path: Path) -> None:
    body = "p = folder / 'once'\nif not p.exists(): p.touch(); os.kill(os.getpid(), 9)\nready()"

    async with running(child(tmp_path, "daemon", body)) as lines:
        assert lines.all[0]["ready"] is True

    assert notes(tmp_path).count("daemon started") == 2


async def test_a_child_that_is_not_ready_in_time_is_a_failed_start(tmp_path: Path) -> None:
    supervisor = Supervisor([child(tmp_path, "daemon", "")], timing=replace(QUICK, ready_s=0.3))

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(StartFailedError, match="daemon was not ready in time"):
            await supervisor.run()


async def test_a_command_that_does_not_exist_is_a_failed_start() -> None:
    supervisor = Supervisor([ChildSpec("daemon", ["/nowhere/aiosd"], {})], timing=QUICK)

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(StartFailedError, match="daemon ended with code 127"):
            await supervisor.run()


async def test_a_child_that_ignores_the_stop_is_killed_after_its_grace(tmp_path: Path) -> None:
    stubborn = child(tmp_path, "lab", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()")

    async with running(stubborn, timing=replace(QUICK, stop_s=0.1)) as lines:
        pid = lines.all[0]["pids"]["lab"]

    assert not alive(pid)


async def test_a_frozen_child_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with running(child(tmp_path, "lab"), timing=replace(QUICK, stop_s=0.1)) as lines:
        pid = lines.all[0]["pids"]["lab"]
        os.kill(pid, signal.SIGSTOP)

    assert not alive(pid)


async def test_a_second_stop_waits_for_nobody(tmp_path: Path) -> None:
    stubborn = child(tmp_path, "lab", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()")
    lines = Lines()
    supervisor = Supervisor([stubborn], write=lines.write, timing=replace(QUICK, stop_s=3_600))

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run())
        await lines.count(1)
        supervisor.stop()
        supervisor.stop()


async def test_the_service_manager_is_told_by_the_supervisor_alone(tmp_path: Path) -> None:
    spec = child(tmp_path, "daemon", "note(os.environ.get('NOTIFY_SOCKET', 'none')); ready()")

    async with running(replace(spec, env={**spec.env, "NOTIFY_SOCKET": "/x"})):
        pass

    assert "daemon none" in notes(tmp_path)


def test_the_back_off_doubles_to_its_bound_and_starts_again_after_a_long_life() -> None:
    back_off = BackOff(Timing())

    delays = [back_off.after(0.0) for _ in range(9)]

    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])
    assert back_off.after(10.0) == pytest.approx(0.1)
    assert back_off.after(9.9) == pytest.approx(0.2)


UP = """
import asyncio, json, os, sys
from aiosd.supervisor import ChildSpec, Supervisor
specs = [ChildSpec(name, argv, dict(os.environ)) for name, argv in json.loads(sys.argv[1])]
asyncio.run(Supervisor(specs).run())
"""


def started_up(*specs: ChildSpec) -> subprocess.Popen[str]:
    command = json.dumps([(spec.name, spec.argv) for spec in specs])
    return subprocess.Popen(
        [sys.executable, "-c", UP, command],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def read_line(up: subprocess.Popen[str]) -> dict[str, Any]:
    assert up.stdout is not None
    line = json.loads(up.stdout.readline())
    assert isinstance(line, dict)
    return line


@pytest.mark.e2e
def test_children_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()"
    with started_up(child(tmp_path, "daemon", stubborn), child(tmp_path, "lab")) as up:
        pids = read_line(up)["pids"].values()
        up.kill()

        wait_for(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_all_in_order_with_nothing_more_on_stdout(
    tmp_path: Path, number: signal.Signals
) -> None:
    with started_up(child(tmp_path, "daemon"), child(tmp_path, "lab")) as up:
        pids = read_line(up)["pids"].values()
        up.send_signal(number)
        assert up.stdout is not None and up.stdout.read() == ""

    assert up.returncode == 0 and not any(alive(pid) for pid in pids)
    assert notes(tmp_path)[-2:] == ["lab stopped", "daemon stopped"]


@pytest.mark.e2e
def test_an_interrupt_of_the_whole_group_still_stops_in_order(tmp_path: Path) -> None:
    with started_up(child(tmp_path, "daemon"), child(tmp_path, "lab")) as up:
        pids = read_line(up)["pids"].values()
        assert {os.getpgid(pid) for pid in pids} == {up.pid}
        os.killpg(up.pid, signal.SIGINT)

    assert up.returncode == 0
    assert notes(tmp_path)[-2:] == ["lab stopped", "daemon stopped"]


@pytest.mark.e2e
def test_a_child_whose_parent_is_gone_does_not_start() -> None:
    entry = Path(__file__).parent.parent / "aiosd" / "child.py"
    command = [sys.executable, "-I", "-S", str(entry), "1", "/bin/echo", "started"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "the parent process is gone" in done.stderr


@pytest.mark.e2e
def test_a_child_gets_ordinary_signals_but_for_the_interrupt() -> None:
    entry = Path(__file__).parent.parent / "aiosd" / "child.py"
    command = [sys.executable, "-I", "-S", str(entry), str(os.getpid()), "/bin/cat"]

    status = subprocess.run(
        [*command, "/proc/self/status"], capture_output=True, text=True, check=True
    ).stdout

    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    assert int(ignored.split()[1], 16) & 0xFFFF == 1 << (signal.SIGINT - 1)
