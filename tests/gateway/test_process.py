"""The gateway as a process of its own, in front of a daemon that is not there."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.gateway.aios.reference_daemon import TOKEN, ReferenceDaemon
from tests.support.http import http_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e


@contextlib.contextmanager
def gateway(directory: Path, *flags: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("AIOSD_")}
    command = [sys.executable, "-m", "gateway", "--state-dir", str(directory)]
    command += ["--socket", str(directory / "aiosd.sock"), "--http", "127.0.0.1:0"]
    command += ["--a2a-grpc", "127.0.0.1:0", *flags]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ | {"AIOSD_DRAIN_GRACE_MS": "2000"} | settings,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    line: dict[str, object] = json.loads(process.stdout.readline())
    return line


def test_the_gateway_says_where_it_listens_and_stops_when_asked(tmp_path: Path) -> None:
    with gateway(tmp_path) as process:
        line = first_line(process)
        assert (line["ready"], line["pid"]) == (True, process.pid)
        answer = httpx.get(f"{line['http']}/health")
        assert (answer.status_code, answer.json()["daemon"]) == (503, "not_serving")
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=10)
        assert (process.returncode, stdout) == (0, "")
        assert "Traceback" not in stderr


@pytest.fixture
async def stack() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as stack:
        yield stack


async def test_an_open_stream_ends_with_a_word_before_the_process_does(
    tmp_path: Path, stack: contextlib.AsyncExitStack
) -> None:
    daemon = ReferenceDaemon(tmp_path / "aiosd.sock")
    await daemon.start()
    stack.push_async_callback(daemon.stop)
    daemon.put()
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "aios/task.subscribe",
        "params": {"task_id": "task-1"},
    }
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "text/event-stream"}
    with gateway(tmp_path) as process:
        url = f"{first_line(process)['http']}/aios/rpc"
        async with (
            http_client(headers=headers) as client,
            client.stream("POST", url, json=body) as answer,
        ):
            chunks = answer.aiter_text()
            assert "subscription_id" in await anext(chunks)
            process.send_signal(signal.SIGTERM)
            rest = "".join([chunk async for chunk in chunks])
        assert rest.endswith(": the server is stopping, connect again\n\n")
        process.communicate(timeout=10)
        assert process.returncode == 0


@pytest.mark.parametrize("flag", ["--http", "--a2a-grpc"])
def test_a_port_that_is_taken_is_a_failure_with_a_reason(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with gateway(tmp_path, flag, f"127.0.0.1:{port}") as process:
            stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 1
    assert stdout == ""
    assert f"127.0.0.1:{port} cannot be listened on" in stderr
    assert f"{flag} HOST:PORT" in stderr
    assert "Traceback" not in stderr


def test_an_unknown_setting_is_a_usage_error(tmp_path: Path) -> None:
    with gateway(tmp_path, AIOSD_MAX_QUEUE="7") as process:
        stdout, stderr = process.communicate(timeout=20)
    assert (process.returncode, stdout) == (2, "")
    assert "AIOSD_MAX_QUEUE" in stderr
