"""Where a call comes from, and how often credentials from there failed (S-09, S-10)."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from aiosd.application.access import Caller
from aiosd.application.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURES: Final = 10
WINDOW_S: Final = 60.0
PEERS: Final = 4096
#: What a client certificate alone entitles to; more needs a token.
CERTIFIED: Final = frozenset(
    {"task:create", "task:read", "task:control", "task:input", "webhook:manage"}
)


def is_local(context: Any) -> bool:
    """Whether the call came over the owner's socket, which only the owner can open."""
    return str(context.peer()).startswith("unix:")


def certified(context: Any) -> Caller | None:
    """The caller that a verified client certificate names by the URI of its SAN; None without.

    Only TLS says so: the other transports' idea of a peer is no identity (H21).
    """
    said = context.auth_context()
    if said.get("transport_security_type") != [b"ssl"]:
        return None
    names = [one.decode("utf-8", "replace") for one in said.get("peer_uri", ())]
    names = names or [
        text
        for one in said.get("x509_subject_alternative_name", ())
        if "://" in (text := one.decode("utf-8", "replace"))
    ]
    return Caller(names[0], CERTIFIED, f"cert:{names[0]}") if len(names) == 1 else None


class Failures:
    """Refused credentials of each peer; one that guesses is not listened to for a while.

    A credential that holds is never held up. The owner's socket does not count: whoever opens
    it needs no credential, and the gateway, which counts its own peers, speaks for many there.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, peer: str) -> None:
        """One more; raises RateLimited when there were too many."""
        host = peer.rpartition(":")[0]
        times = self._seen.setdefault(host, deque(maxlen=FAILURES))
        self._seen.move_to_end(host)
        now = self._now()
        full = len(times) == FAILURES and now - times[0] < WINDOW_S
        if not full:
            times.append(now)
        if len(self._seen) > PEERS:
            self._seen.popitem(last=False)
        if full:
            raise RateLimited("too many refused credentials; wait", {"limit": str(FAILURES)})
