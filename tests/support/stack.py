"""The whole service as a user starts it: `aiosd up --lab`, in a directory of its own."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc

from aiosd.api.v1 import access_service_pb2

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

READY_S = 40.0
STOP_S = 20.0
QUICK = {
    "heartbeat_interval_ms": 200,
    "lease_ms": 1_500,
    "reattach_window_ms": 3_000,
    "offer_timeout_ms": 2_000,
    "cancel_grace_ms": 500,
    "drain_grace_ms": 1_000,
    "max_tasks_per_tool": 100,
    "max_concurrent_tasks": 100,
}
"""Settings that make waits short and limits wide, where a test does not say otherwise."""


class StackError(AssertionError):
    """The service did not do what it was started for; carries the end of its log."""


class Stack:
    """One run of `aiosd up`. Use it as a context, or `start` and `stop` it."""

    def __init__(self, directory: Path, *, lab: bool = True, **settings: object) -> None:
        self.directory = directory
        self.state_dir = directory / "state"
        self.socket = directory / "aiosd.sock"
        self.log = directory / "stderr.log"
        self.http = ""
        self.token = ""
        self.ready: dict[str, Any] = {}
        self.pids: dict[str, int] = {}
        self._lab = lab
        self._settings = QUICK | settings
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait for the readiness line. A second start keeps the state."""
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("AIOSD_") or name == "AIOSD_FAILPOINTS"
        }
        for name, value in self._settings.items():
            text = json.dumps(value) if isinstance(value, list | tuple) else str(value)
            environ["AIOSD_" + name.upper().replace(".", "__")] = text
        command = [sys.executable, "-m", "aiosd", "up", *(["--lab"] if self._lab else [])]
        command += ["--state-dir", str(self.state_dir), "--socket", str(self.socket)]
        command += ["--http", self.http.removeprefix("http://") or "127.0.0.1:0"]
        command += ["--a2a-grpc", "127.0.0.1:0"]
        self._lines = queue.Queue()
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environ, text=True
            )
        reading = threading.Thread(
            target=_read, args=(self._process, self._lines), name="stack", daemon=True
        )
        reading.start()
        try:
            self.ready = self._line(lambda line: line.get("ready") is True, READY_S)
        except StackError:
            self.stop()
            raise
        self.http = self.ready["http"]
        self.pids = dict(self.ready["pids"])
        with open(self.ready["token_file"]) as file:  # noqa: PTH123
            self.token = file.read().strip()

    def stop(self) -> None:
        """Ask it to stop and wait; kill it if it does not."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)
            raise StackError(f"did not stop within {STOP_S} s\n{self._tail()}") from None

    def kill(self, name: str, *, wait: bool = True) -> None:
        """Kill one part with SIGKILL; wait until `up` has started it again."""
        os.kill(self.pids[name], signal.SIGKILL)
        if wait:
            self.wait_restarted(name)

    def wait_restarted(self, name: str) -> None:
        """Wait for the line that says that a part runs again."""
        line = self._line(lambda line: line.get("restarted") == name, READY_S)
        self.pids[name] = line["pid"]

    def check(self) -> None:
        """Raise StackError, with the end of the log, if it does not run any more."""
        if self._process is None or self._process.poll() is not None:
            raise StackError(f"it does not run any more\n{self._tail()}")

    def make_token(self, principal: str, *scopes: str) -> str:
        """A bearer token of somebody else, made by the owner."""
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            create = channel.unary_unary(
                "/aiosd.api.v1.AccessService/CreateToken",
                request_serializer=access_service_pb2.CreateTokenRequest.SerializeToString,
                response_deserializer=access_service_pb2.CreateTokenResponse.FromString,
            )
            request = access_service_pb2.CreateTokenRequest(principal=principal, scopes=scopes)
            made = create(
                request, timeout=10, metadata=(("authorization", f"Bearer {self.token}"),)
            )
            secret: str = made.secret
            return secret

    def approver_token(self) -> str:
        """The person's credential."""
        with open(self.ready["approver_token_file"]) as file:  # noqa: PTH123
            return file.read().strip()

    def _line(self, is_wanted: Any, within_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + within_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise StackError(f"nothing within {within_s} s\n{self._tail()}") from None
            if is_wanted(line):
                return line
            if "ended" in line:
                raise StackError(f"it ended by itself\n{self._tail()}")

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


def _read(process: subprocess.Popen[str], lines: queue.Queue[dict[str, Any]]) -> None:
    if process.stdout is None:
        return
    with process.stdout as stdout:
        for line in stdout:
            lines.put(json.loads(line))
    lines.put({"ended": True})
