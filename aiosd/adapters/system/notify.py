"""Readiness and liveness for systemd: the sd_notify protocol over its datagram socket."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class Notifier:
    """Tells the service manager how we are; does nothing when none is listening.

    A notification is never worth a failure: a broken socket is ignored.
    """

    def __init__(self, address: str | None = None, watchdog_ms: int | None = None) -> None:
        self._address = address
        self.watchdog_ms = watchdog_ms
        """Send `watchdog()` at least every half of this; None: nobody waits for it."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """As NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID say (sd_notify(3))."""
        address = environ.get("NOTIFY_SOCKET", "")
        usec = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog_ms = int(usec) // 1000 if usec.isdigit() and meant else 0
        return cls(address if address[:1] in ("/", "@") else None, watchdog_ms or None)

    def ready(self, status: str = "ready") -> None:
        """Everything is up; `status` is one line for `systemctl status`."""
        self._send("READY=1", f"STATUS={_line(status)}", f"MAINPID={os.getpid()}")

    def status(self, text: str) -> None:
        """Change the line that `systemctl status` shows."""
        self._send(f"STATUS={_line(text)}")

    def stopping(self) -> None:
        """The stop has begun."""
        self._send("STOPPING=1", "STATUS=stopping")

    def watchdog(self) -> None:
        """Still alive."""
        self._send("WATCHDOG=1")

    def extend_start(self, microseconds: int) -> None:
        """The start, such as a migration, takes at most this much longer."""
        self._send(f"EXTEND_TIMEOUT_USEC={microseconds}")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), address)


def _line(text: str) -> str:
    return " ".join(text.split())
