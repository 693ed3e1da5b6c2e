"""The built-in capabilities under a user's hands: pause, resume, cancel, for real."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd.api.v1 import task_pb2
from aiosd.sdk import Client, connect
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.programs import Programs

SPIN = (
    "import os,sys,subprocess\nopen(sys.argv[1],'a').write(f'{os.getpid()}\\n')\nwhile True: pass"
)
TREE = (
    "import os,subprocess,sys,time\n"
    "open(sys.argv[1],'a').write(f'{os.getpid()}\\n')\n"
    "subprocess.Popen([sys.executable,'-c',sys.argv[2],sys.argv[1]])\n"
    "time.sleep(600)"
)


def state_of(pid: int) -> str:
    """The kernel's letter for a process: R, S, T, Z; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def working(client: Client, task_id: str) -> task_pb2.Task:
    async def look() -> task_pb2.Task | None:
        task = await client.get(task_id)
        return task if task.state == task_pb2.TASK_STATE_WORKING else None

    return await eventually(look)


async def pids_in(path: Path, count: int) -> list[int]:
    async def look() -> list[int]:
        lines = path.read_text().split() if path.exists() else []
        return [int(one) for one in lines] if len(lines) >= count else []

    return await eventually(look)


@pytest.mark.req("R027", "R028", "R041")
async def test_a_paused_digest_stands_still_and_goes_on(programs: Programs, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(40):
        (tree / f"{number:03}").write_bytes(os.urandom(1 << 16) * 96)  # 240 MiB in all
    await programs.daemon()
    provider = await programs.provider()
    async with connect(programs.address) as client:
        task = await client.create("system.files.digest", {"path": str(tree)})
        await working(client, task.task_id)
        paused = await client.pause(task.task_id)
        assert paused.state == task_pb2.TASK_STATE_PAUSED
        head, ticks = paused.event_head, cpu_ticks(provider.pid)
        # Standing still cannot be waited for, only watched: three heartbeats long.
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.6)
        later = await client.get(task.task_id)
        assert later.state == task_pb2.TASK_STATE_PAUSED
        assert later.event_head == head
        assert cpu_ticks(provider.pid) - ticks <= 15
        resumed = await client.resume(task.task_id)
        assert resumed.state == task_pb2.TASK_STATE_WORKING
        done = await client.wait(task.task_id, 60_000)
        assert done.state == task_pb2.TASK_STATE_COMPLETED
        (summary,) = [one for one in done.artifacts if one.type == "report"]
        report = await client.artifact(summary.artifact_id, task.task_id)
        contents = {part.WhichOneof("content"): part for part in report.parts}
        assert {"text", "data"} <= set(contents)
        assert json.loads(contents["data"].data)["files"] == 40


@pytest.mark.req("R027", "R028")
async def test_pause_stops_every_process_of_a_command_and_cancel_leaves_none(
    programs: Programs, tmp_path: Path
) -> None:
    import sys

    marks = tmp_path / "pids"
    await programs.daemon()
    await programs.provider()
    async with connect(programs.address) as client:
        argv = [sys.executable, "-c", TREE, str(marks), SPIN]
        task = await client.create("system.process.run", {"argv": argv})
        await programs.approve(task.task_id)
        pids = await pids_in(marks, 2)

        async def all_in(letters: str) -> bool:
            return all(state_of(pid) in letters for pid in pids)

        paused = await client.pause(task.task_id)
        assert paused.state == task_pb2.TASK_STATE_PAUSED
        assert await eventually(lambda: all_in("T"))
        ticks = [cpu_ticks(pid) for pid in pids]
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.3)
        assert [cpu_ticks(pid) for pid in pids] == ticks
        await client.resume(task.task_id)
        assert await eventually(lambda: all_in("RS"))
        canceled = await client.cancel(task.task_id, "enough")
        assert canceled.state == task_pb2.TASK_STATE_CANCELED

        async def none_left() -> bool:
            return all(state_of(pid) in ("", "Z") for pid in pids)

        assert await eventually(none_left)


@pytest.mark.req("R098")
async def test_a_command_over_its_time_is_really_stopped(
    programs: Programs, tmp_path: Path
) -> None:
    import sys

    marks = tmp_path / "pids"
    await programs.daemon()
    await programs.provider()
    async with connect(programs.address) as client:
        argv = [sys.executable, "-c", SPIN, str(marks)]
        task = await client.create("system.process.run", {"argv": argv}, timeout_ms=1000)
        await programs.approve(task.task_id)
        (pid,) = await pids_in(marks, 1)
        done = await client.wait(task.task_id, 20_000)
        assert done.state == task_pb2.TASK_STATE_FAILED
        assert (done.failure.code, done.failure.reason) == (-32005, "timeout")
        assert done.outcome == task_pb2.OUTCOME_UNCERTAIN

        async def gone() -> bool:
            return state_of(pid) in ("", "Z")

        assert await eventually(gone)
