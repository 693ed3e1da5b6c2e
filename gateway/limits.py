"""How much one HTTP peer may ask of the gateway (S-15), and how often it may fail to say who it is.

Time is seconds of a monotonic clock, passed in.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BODY_BYTES: Final = 1024 * 1024

_FAILURE_WINDOW_SECONDS: Final = 60.0
_MAX_PEERS: Final = 4096


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of one connection and one request; the defaults are those of S-15."""

    request_line_bytes: int = 8 * 1024
    header_bytes: int = 16 * 1024
    header_seconds: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its headers."""
    body_bytes: int = MAX_BODY_BYTES
    body_seconds: float = 30.0
    keep_alive_seconds: int = 60
    connections: int = 256
    connections_per_peer: int = 128
    auth_failures_per_minute: int = 10


class FailureLimiter:
    """Counts failed authentications of each peer over the last minute (S-10).

    Only failures are counted and only failures are limited: whoever shows a good credential passes
    at any time, whatever others behind the same address did. Remembers the 4096 peers that failed
    last.
    """

    def __init__(self, per_minute: int, now: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._now = now
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, peer: str) -> int:
        """Count one failure; 0, or the whole seconds after which the next would not be limited."""
        now = self._now()
        times = self._failures.setdefault(peer, deque())
        self._failures.move_to_end(peer)
        while times and now - times[0] >= _FAILURE_WINDOW_SECONDS:
            times.popleft()
        if len(times) >= self._per_minute:
            return max(1, math.ceil(_FAILURE_WINDOW_SECONDS - (now - times[0])))
        times.append(now)
        if len(self._failures) > _MAX_PEERS:
            self._failures.popitem(last=False)
        return 0


def peer_of(client: tuple[str, int] | None) -> str:
    """Who a connection counts as: an IPv4 address, an IPv6 network of 64 bits, or the socket."""
    if client is None:
        return "local"
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    # One subscriber owns a /64 and can use a new address for every connection.
    return str(ipaddress.ip_network((int(address), 64), strict=False))
