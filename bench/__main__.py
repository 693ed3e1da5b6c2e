"""`make bench`: durable create against a no-op call, and create -> executed -> result.

Both sides of a ratio run in turn in the same minute on the same machine, several rounds; the
median round is printed. Absolute figures belong to the machine, the ratios to the design.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import uvloop
from google.protobuf.duration_pb2 import Duration

from aiosd.api.v1 import task_pb2, task_service_pb2, task_service_pb2_grpc
from bench.load import Figures, closed_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

CONCURRENCY = (1, 16, 64)
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
METADATA = json.dumps({"note": "x" * 450})  # makes the message about 600 bytes


class Stack:
    """A daemon, a no-op provider and a no-op server, all in a scratch directory."""

    def __init__(self, home: Path) -> None:
        self.daemon_address = f"unix:{home}/run/aiosd.sock"
        self.noop_address = f"unix:{home}/noop.sock"
        self._environ = {
            **os.environ,
            "AIOSD_STATE_DIR": str(home / "state"),
            "AIOSD_SOCKET": str(home / "run" / "aiosd.sock"),
            "AIOSD_MAX_QUEUE_SIZE": "10000000",
            "AIOSD_MAX_CONCURRENT_TASKS": "256",
            "AIOSD_MAX_TASKS_PER_TOOL": "256",
        }
        self._children: list[subprocess.Popen[str]] = []
        self._log = (home / "log").open("w")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._children.append(child)
        assert child.stdout is not None
        if not child.stdout.readline():
            raise SystemExit(f"{arguments} did not start; see {self._log.name}")
        return child

    def stop(self) -> None:
        for child in reversed(self._children):
            child.terminate()
            child.wait()


async def compare(
    ours: Callable[[], Awaitable[Any]], theirs: Callable[[], Awaitable[Any]], callers: int
) -> tuple[Figures, Figures]:
    """The median round of each side, the sides taking turns."""
    calls = max(500, callers * 60)
    pairs = []
    for _ in range(ROUNDS):
        first = await closed_loop(ours, callers, calls)
        pairs.append((first, await closed_loop(theirs, callers, calls)))
    pairs.sort(key=lambda pair: pair[0].rate / pair[1].rate)
    return pairs[len(pairs) // 2]


async def creates(stack: Stack) -> None:
    request = task_service_pb2.CreateTaskRequest(
        capability_id="bench.queued", arguments='{"number":1}', metadata=METADATA
    )
    async with (
        grpc.aio.insecure_channel(stack.daemon_address) as daemon,
        grpc.aio.insecure_channel(stack.noop_address) as noop,
    ):
        ours = task_service_pb2_grpc.TaskServiceStub(daemon)
        theirs = task_service_pb2_grpc.TaskServiceStub(noop)
        print("durable create against a no-op call (calls/s, p50/p99 ms)")
        for callers in CONCURRENCY:
            mine, other = await compare(
                lambda: ours.CreateTask(request), lambda: theirs.CreateTask(request), callers
            )
            print(
                f"  at {callers:3}: {show(mine)}   no-op {show(other)}   "
                f"ratio {mine.rate / other.rate:.2f}"
            )
        batch = task_service_pb2.BatchCreateTasksRequest(requests=[request] * 50)
        figures = await closed_loop(lambda: ours.BatchCreateTasks(batch), 4, 40)
        print(f"  batches of 50, 4 at a time: {figures.rate * 50:.0f} creates/s")


async def round_trips(stack: Stack) -> None:
    request = task_service_pb2.CreateTaskRequest(
        capability_id="bench.noop", arguments="{}", wait=Duration(seconds=30)
    )
    async with grpc.aio.insecure_channel(stack.daemon_address) as channel:
        stub = task_service_pb2_grpc.TaskServiceStub(channel)

        async def once() -> None:
            done = await stub.CreateTask(request)
            assert done.task.state == task_pb2.TASK_STATE_COMPLETED, done.task

        print("create -> no-op provider -> result, in one call (tasks/s, p50/p99 ms)")
        for callers in CONCURRENCY:
            rounds = [
                await closed_loop(once, callers, max(200, callers * 20)) for _ in range(ROUNDS)
            ]
            middle = statistics.median_low([one.rate for one in rounds])
            print(f"  at {callers:3}: {show(next(one for one in rounds if one.rate == middle))}")


def show(figures: Figures) -> str:
    return f"{figures.rate:7.0f}/s {figures.p50:6.2f}/{figures.p99:6.2f}"


async def main(home: Path) -> None:
    stack = Stack(home)
    try:
        stack.start("aiosd", "serve")
        stack.start("bench.noop_server", stack.noop_address)
        stack.start("bench.noop_provider", stack.daemon_address, "leave").wait()
        await creates(stack)
        stack.start("bench.noop_provider", stack.daemon_address, "hold")
        await round_trips(stack)
    finally:
        stack.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="aiosd-bench-") as scratch:
        uvloop.run(main(Path(scratch)))
