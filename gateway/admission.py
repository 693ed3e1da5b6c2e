"""Which bearer tokens were found good a moment ago, and how many streams each has open.

Every call that reaches the daemon is judged by the daemon. The memory here is for what needs no
daemon (a ping, a parse error, the list of methods): it must not be told to strangers either.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aiosd.api.v1 import system_service_pb2
from gateway.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.daemon_channel import Caller, DaemonChannel

REMEMBERED_SECONDS: Final = 5.0
MAX_STREAMS: Final = 64
"""Live streams of one token (S-15)."""
_MAX_TOKENS: Final = 4096

TOO_MANY_STREAMS: Final = Refusal(
    429,
    "too_many_streams",
    f"at most {MAX_STREAMS} streams may be open at a time",
    ((b"retry-after", b"5"),),
)


class Admission:
    """Keeps digests of tokens, never tokens."""

    def __init__(self, daemon: DaemonChannel, *, now: Callable[[], float] = time.monotonic) -> None:
        self._daemon = daemon
        self._now = now
        self._good_until: OrderedDict[bytes, float] = OrderedDict()
        self._streams: Counter[bytes] = Counter()

    async def check(self, caller: Caller) -> None:
        """Ask the daemon about a token that it has not accepted lately. Raises DaemonError."""
        digest = _digest(caller)
        if self._good_until.get(digest, 0.0) > self._now():
            return
        await self._daemon.call(
            self._daemon.system.GetSystemInfo,
            system_service_pb2.GetSystemInfoRequest(),
            caller,
            repeatable=True,
        )
        self._good_until[digest] = self._now() + REMEMBERED_SECONDS
        self._good_until.move_to_end(digest)
        if len(self._good_until) > _MAX_TOKENS:
            self._good_until.popitem(last=False)

    def forget(self, caller: Caller) -> None:
        """The daemon has just refused this token."""
        self._good_until.pop(_digest(caller), None)

    def has_stream_left(self, caller: Caller) -> bool:
        """Whether the token may open one more stream."""
        return self._streams[_digest(caller)] < MAX_STREAMS

    @contextmanager
    def stream(self, caller: Caller) -> Iterator[None]:
        """Count a stream while it is open."""
        digest = _digest(caller)
        self._streams[digest] += 1
        try:
            yield
        finally:
            self._streams[digest] -= 1
            if not self._streams[digest]:
                del self._streams[digest]


def _digest(caller: Caller) -> bytes:
    return hashlib.blake2b(caller.bearer.encode(), digest_size=16).digest()
