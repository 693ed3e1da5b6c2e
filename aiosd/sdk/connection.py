"""Where the daemon is, how to reach it, and how long to wait between two tries."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import grpc
from grpc import aio

from aiosd.sdk.mint import local_token

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message on the wire in either direction (S-21)."""

MAX_SOCKET_PATH_BYTES = 107
"""What the kernel takes as the path of a Unix socket."""

_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A frozen peer is noticed only if the ping itself has a deadline (E11).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # The global pool would give a new channel the old connection of a socket that was
    # unlinked and bound again (E06).
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC's own back-off grows to two minutes; a restarted daemon is back in a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.enable_retries", 0),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A daemon to talk to, with everything that a connection needs.

    `target` is "unix:/absolute/path" or "host:port". `token` is a bearer token; empty: the call
    carries none, which on the owner's socket means the owner, or the one that `mint.sock` gives.
    `credentials` turns TLS on.
    """

    target: str
    token: str = ""
    credentials: grpc.ChannelCredentials | None = None

    def open(self) -> aio.Channel:
        """A channel of its own connection; must be called inside a running event loop."""
        if self.credentials is not None:
            return aio.secure_channel(self.target, self.credentials, options=_CHANNEL_OPTIONS)
        return aio.insecure_channel(self.target, options=_CHANNEL_OPTIONS)

    def open_blocking(self) -> grpc.Channel:
        """As `open`, for threads."""
        if self.credentials is not None:
            return grpc.secure_channel(self.target, self.credentials, options=_CHANNEL_OPTIONS)
        return grpc.insecure_channel(self.target, options=_CHANNEL_OPTIONS)

    @property
    def has_socket(self) -> bool:
        """Whether a daemon's socket lies there: of one that runs, restarts, or was killed."""
        return self.target.startswith("unix:") and os.path.exists(self.target[len("unix:") :])  # noqa: PTH110

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What every call carries."""
        token = self.token or local_token(self.target)
        return (("authorization", f"Bearer {token}"),) if token else ()


def resolve(
    address: str | None = None,
    token: str | None = None,
    credentials: grpc.ChannelCredentials | None = None,
) -> Endpoint:
    """The endpoint that the arguments and the environment name.

    `address`: "unix:/path", an absolute path, or "host:port". None: $AIOSD_ADDRESS, else
    $AIOSD_SOCKET, else the socket of a daemon with default settings (design.md 2).
    `token`: None: the content of the file $AIOSD_TOKEN_FILE, else no token.

    Raises ValueError for an address of another form, for a socket path of more than 107 bytes,
    for an unreadable token file, and for a token that would travel in the clear to another
    machine (S-09).
    """
    target = _target(address or os.environ.get("AIOSD_ADDRESS") or _default_socket())
    bearer = _token_from_file() if token is None else token
    if bearer and not bearer.isascii():
        raise ValueError("token: must be ASCII")
    if bearer and credentials is None and not _is_local(target):
        raise ValueError(f"address: {target} is another machine, so a token needs TLS credentials")
    return Endpoint(target, bearer, credentials)


def jittered(attempt: int, *, first_ms: int = 50, most_ms: int = 2_000) -> float:
    """Seconds to wait before try number `attempt` (from 0): random up to a doubling bound.

    Many readers lose the same daemon at the same moment; the jitter spreads their return.
    """
    bound = min(most_ms, first_ms * 2 ** min(attempt, 16))
    return random.uniform(bound / 4, bound) / 1000  # noqa: S311 (not a secret)


def _target(address: str) -> str:
    if address.startswith("/"):
        address = f"unix:{address}"
    if address.startswith("unix:"):
        path = Path(address.removeprefix("unix:")).absolute()
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            raise ValueError(f"address: {path} is longer than {MAX_SOCKET_PATH_BYTES} bytes")
        return f"unix:{path}"
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536) or "/" in address:
        raise ValueError(f'address: expected "unix:/path" or "host:port", got {address!r}')
    return address


def _default_socket() -> str:
    named = os.environ.get("AIOSD_SOCKET")
    if named:
        return f"unix:{named}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return f"unix:{runtime}/aiosd/aiosd.sock"
    state = os.environ.get("XDG_STATE_HOME", "")
    state_home = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return f"unix:{state_home / 'aiosd' / 'run' / 'aiosd.sock'}"


def _token_from_file() -> str:
    named = os.environ.get("AIOSD_TOKEN_FILE")
    if not named:
        return ""
    try:
        return Path(named).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ValueError(f"AIOSD_TOKEN_FILE: cannot read {named}: {problem}") from None


def _is_local(target: str) -> bool:
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
