"""Who caused what happens now: set around a call, read by the audit."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Origin:
    """A call: who made it, which method, and the hash of what was asked."""

    __slots__ = ("_hash", "_of", "method", "principal")

    def __init__(self, principal: str, method: str, request_hash: Callable[[], str]) -> None:
        self.principal = principal
        self.method = method
        self._of = request_hash
        self._hash: str | None = None

    @property
    def request_hash(self) -> str:
        """SHA-256 of the request in hex, computed when it is first asked for."""
        if self._hash is None:
            self._hash = self._of()
        return self._hash


#: The daemon's own acts have none.
DAEMON = Origin("daemon", "", lambda: "")
#: The call that is being served.
origin: ContextVar[Origin] = ContextVar("origin", default=DAEMON)
