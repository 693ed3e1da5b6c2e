"""Identifiers and bearer tokens."""

from __future__ import annotations

import os
import secrets
import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN_PREFIX: Final = "aios_"  # noqa: S105 - the public part

_DRAW = 1000
_RANDOM_BITS = 74
_LOW_BITS = 62


class _Clock(Protocol):
    def now(self) -> int: ...


class SystemIds:
    """Ids of the form `task-<32 hex digits>`, where the digits are a UUIDv7 (RFC 9562).

    Ids of one process sort in the order in which they were made, inside one millisecond too, and
    do not repeat when the clock stands still or goes back. Unique, but no secret (S-19). May be
    used from several threads.
    """

    def __init__(self, clock: _Clock, random: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._random = random
        self._last = 0
        self._drawn = b""
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """A fresh id with this prefix, such as `task`, `ctx`, `art`, `sub` or `sess`."""
        return f"{prefix}-{self._uuid7():032x}"

    def secret(self) -> str:
        """256 random bits as URL-safe base64, without prefix."""
        return secrets.token_urlsafe(32)

    def token(self) -> str:
        """A bearer token: `aios_` and 256 random bits in URL-safe base64 (S-08)."""
        return new_token()

    def _uuid7(self) -> int:
        """Milliseconds in the upper 48 bits, then version, random, variant, random.

        Time and random bits are kept as one number. When a fresh one would not be larger than the
        last, the last plus a random step is taken: the overflow of the random bits then counts
        as the next millisecond (RFC 9562, 6.2, method 2).
        """
        with self._lock:
            fresh = int.from_bytes(self._take(10), "big") & ((1 << _RANDOM_BITS) - 1)
            step = 1 + (fresh & 0xFFFF_FFFF)
            fresh |= self._clock.now() << _RANDOM_BITS
            self._last = fresh if fresh > self._last else self._last + step
            number = self._last
        milliseconds = number >> _RANDOM_BITS
        high = (number >> _LOW_BITS) & 0xFFF
        low = number & ((1 << _LOW_BITS) - 1)
        return milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low

    def _take(self, count: int) -> bytes:
        """Random bytes, drawn from the kernel many at a time: a system call an id is dear."""
        if len(self._drawn) < count:
            self._drawn = self._random(_DRAW)
        taken, self._drawn = self._drawn[:count], self._drawn[count:]
        return taken


def new_token() -> str:
    """A bearer token: `aios_` and 256 random bits in URL-safe base64 (S-08)."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)
