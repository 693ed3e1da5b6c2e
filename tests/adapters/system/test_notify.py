"""Readiness reaches the service manager's socket, and its absence disturbs nobody."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from aiosd.adapters.system.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_messages_arrive_as_datagrams(abstract: bool) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        path = str(Path(folder, "notify"))
        manager.bind("\0" + path if abstract else path)
        manager.settimeout(5)
        notifier = Notifier.from_environ({"NOTIFY_SOCKET": ("@" if abstract else "") + path})

        notifier.ready("serving\n3 tasks")
        assert manager.recv(999).decode() == (
            f"READY=1\nSTATUS=serving 3 tasks\nMAINPID={os.getpid()}"
        )
        notifier.status("busy")
        assert manager.recv(999) == b"STATUS=busy"
        notifier.watchdog()
        assert manager.recv(999) == b"WATCHDOG=1"
        notifier.extend_start(5_000_000)
        assert manager.recv(999) == b"EXTEND_TIMEOUT_USEC=5000000"
        notifier.stopping()
        assert manager.recv(999) == b"STOPPING=1\nSTATUS=stopping"


@pytest.mark.parametrize("address", [None, "/nowhere/notify", "relative"])
def test_nobody_listening_is_no_error(address: str | None) -> None:
    environ = {} if address is None else {"NOTIFY_SOCKET": address}

    Notifier.from_environ(environ).ready()


def test_the_watchdog_is_for_the_process_that_it_names() -> None:
    ours = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}

    assert Notifier.from_environ(ours).watchdog_ms == 30_000
    assert Notifier.from_environ(ours | {"WATCHDOG_PID": "1"}).watchdog_ms is None
    assert Notifier.from_environ({}).watchdog_ms is None
