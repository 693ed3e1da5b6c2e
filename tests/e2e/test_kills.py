"""kill -9 of every party, in the middle of real work (design.md 1, I01-I19)."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import pytest

from aiosd.api.v1 import event_pb2, task_pb2
from aiosd.sdk import Client, connect
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.programs import Programs

LINES = (
    "import sys,time\n"
    "open(sys.argv[1],'a').write('ran\\n')\n"
    "for number in range(int(sys.argv[2])):\n"
    "    print(number, flush=True)\n"
    "    time.sleep(0.02)\n"
)


async def follow(client: Client, task_id: str, seen: list[event_pb2.Event]) -> None:
    async for event in client.subscribe(task_id, after=0):
        seen.append(event)


async def progressed(client: Client, task_id: str, beyond: int) -> int:
    async def look() -> int:
        head = (await client.get(task_id)).event_head
        return head if head > beyond else 0

    return await eventually(look)


async def read_revisions(client: Client, task_id: str) -> list[int]:
    """What one reader is told until the task has ended."""
    told: list[int] = []

    async def look() -> bool:
        task = await client.get(task_id)
        told.append(task.revision)
        return task.state == task_pb2.TASK_STATE_COMPLETED

    await eventually(look, within_s=60)
    return told


@pytest.mark.req("R056", "R059", "R075", "R076", "I01", "I11", "I19", "I28", "H01")
async def test_a_daemon_killed_mid_work_disturbs_neither_work_nor_watchers(
    programs: Programs, tmp_path: Path
) -> None:
    tree, ran = tmp_path / "tree", tmp_path / "ran"
    tree.mkdir()
    for number in range(60):
        (tree / f"{number:03}").write_bytes(os.urandom(1 << 16) * 64)  # 240 MiB in all
    daemon = await programs.daemon()
    await programs.provider()
    async with connect(programs.address, patience_ms=20_000) as client:
        argv = [sys.executable, "-c", LINES, str(ran), "150"]
        command = await client.create("system.process.run", {"argv": argv})
        await programs.approve(command.task_id)
        digest = await client.create("system.files.digest", {"path": str(tree)})
        seen: dict[str, list[event_pb2.Event]] = {digest.task_id: [], command.task_id: []}
        watchers = [
            asyncio.ensure_future(follow(client, task_id, events))
            for task_id, events in seen.items()
        ]
        reading = asyncio.ensure_future(read_revisions(client, command.task_id))
        await progressed(client, command.task_id, 10)
        await daemon.kill()
        await programs.daemon()
        told = await reading
        assert told == sorted(told)
        for task_id in seen:
            done = await client.wait(task_id, 60_000)
            assert done.state == task_pb2.TASK_STATE_COMPLETED, done
            assert done.attempt == 1
        async with asyncio.timeout(20):
            await asyncio.gather(*watchers)
        for task_id, events in seen.items():
            head = (await client.get(task_id)).event_head
            assert [one.sequence for one in events] == list(range(1, head + 1))
        logged = [
            one.logged.message
            for one in seen[command.task_id]
            if one.WhichOneof("payload") == "logged"
        ]
        numbers = [one for one in logged if one.isdigit()]
        assert numbers == [str(number) for number in range(150)]
    assert ran.read_text() == "ran\n"


@pytest.mark.req("R058", "R147", "I16", "I17", "H10")
async def test_a_provider_killed_after_go_is_repeated_only_where_that_is_declared_safe(
    programs: Programs, tmp_path: Path
) -> None:
    tree, ran = tmp_path / "tree", tmp_path / "ran"
    tree.mkdir()
    for number in range(60):
        (tree / f"{number:03}").write_bytes(os.urandom(1 << 16) * 64)
    await programs.daemon()
    provider = await programs.provider()
    async with connect(programs.address) as client:
        argv = [sys.executable, "-c", LINES, str(ran), "100000"]
        command = await client.create("system.process.run", {"argv": argv})
        await programs.approve(command.task_id)
        digest = await client.create("system.files.digest", {"path": str(tree)})
        await progressed(client, command.task_id, 5)
        await progressed(client, digest.task_id, 2)
        await provider.kill()
        await programs.provider()
        lost = await client.wait(command.task_id, 20_000)
        assert lost.state == task_pb2.TASK_STATE_FAILED
        assert (lost.failure.code, lost.failure.reason) == (-32004, "agent_lost")
        assert lost.outcome == task_pb2.OUTCOME_UNCERTAIN
        assert lost.retry_advice == task_pb2.RETRY_ADVICE_MANUAL_REVIEW
        done = await client.wait(digest.task_id, 60_000)
        assert done.state == task_pb2.TASK_STATE_COMPLETED
        assert done.attempt == 2
        again = await client.get(command.task_id)
        assert (again.attempt, again.event_head) == (1, lost.event_head)
    assert ran.read_text() == "ran\n"


@pytest.mark.req("I18", "H11")
async def test_a_frozen_provider_is_fenced_and_its_late_word_changes_nothing(
    programs: Programs, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    await programs.daemon()
    provider = await programs.provider()
    async with connect(programs.address) as client:
        argv = [sys.executable, "-c", LINES, str(ran), "60"]
        command = await client.create("system.process.run", {"argv": argv})
        await programs.approve(command.task_id)
        await progressed(client, command.task_id, 5)
        provider.stop()
        lost = await client.wait(command.task_id, 20_000)
        assert lost.outcome == task_pb2.OUTCOME_UNCERTAIN
        provider.cont()
        # It attaches anew and works on: a new task proves that, the old one stays as it was.
        fresh = await client.create("system.process.run", {"argv": ["/bin/true"]})
        await programs.approve(fresh.task_id)
        done = await client.wait(fresh.task_id, 20_000)
        assert done.state == task_pb2.TASK_STATE_COMPLETED
        after = await client.get(command.task_id)
        assert after.event_head == lost.event_head


@pytest.mark.req("I44", "S-03")
async def test_a_second_daemon_ends_with_75_and_harms_nothing(programs: Programs) -> None:
    daemon = await programs.daemon()
    second = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aiosd",
        "serve",
        env=programs.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(second.communicate(), 20)
    assert second.returncode == 75
    assert out == b""
    assert str(daemon.pid) in err.decode()
    async with connect(programs.address) as client:
        assert (await client.system_info()).version


@pytest.mark.req("I45")
async def test_sigterm_lets_running_work_go_on_under_the_next_daemon(
    programs: Programs, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    daemon = await programs.daemon()
    await programs.provider()
    async with connect(programs.address, patience_ms=20_000) as client:
        argv = [sys.executable, "-c", LINES, str(ran), "100"]
        command = await client.create("system.process.run", {"argv": argv})
        await programs.approve(command.task_id)
        await progressed(client, command.task_id, 5)
        assert await daemon.terminate() == 0
        await programs.daemon()
        done = await client.wait(command.task_id, 30_000)
        assert done.state == task_pb2.TASK_STATE_COMPLETED
        assert done.attempt == 1
    assert ran.read_text() == "ran\n"
