"""What a method is, and what it is called with."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gateway.aios.daemon_errors import from_daemon
from gateway.aios.params import Params
from gateway.daemon_channel import CALL_TIMEOUT_S, Caller, DaemonChannel, DaemonError

if TYPE_CHECKING:
    from grpc import aio

ParamsT = TypeVar("ParamsT", bound=Params)
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class WireLimits:
    """What the gateway itself is bound by and reports."""

    max_message_bytes: int
    max_batch_size: int
    sync_wait_ms: int
    approval_timeout_ms: int


@dataclass(slots=True)
class Call:
    """One HTTP request's view of the daemon; all calls of a batch share it.

    `session_id` and `idempotency_key` are empty without their headers. `is_unauthenticated` turns
    true when the daemon does not know the bearer token: the HTTP answer is then 401.
    """

    daemon: DaemonChannel
    caller: Caller
    limits: WireLimits
    session_id: str = ""
    idempotency_key: str = ""
    is_unauthenticated: bool = False

    async def ask(
        self,
        method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT],
        request: RequestT,
        *,
        wait_ms: int = 0,
        repeatable: bool = False,
    ) -> ResponseT:
        """Call the daemon, which may take `wait_ms` longer than usual. Raises AiosError.

        `repeatable`: the same call twice has the effect of one, so a restart of the daemon in the
        middle of it need not be seen.
        """
        try:
            return await self.daemon.call(
                method,
                request,
                self.caller,
                timeout_s=CALL_TIMEOUT_S + wait_ms / 1000,
                repeatable=repeatable,
            )
        except DaemonError as refused:
            self.is_unauthenticated = self.is_unauthenticated or refused.is_unauthenticated
            raise from_daemon(refused) from None

    async def read(
        self, method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        """Call the daemon for something that changes nothing. Raises AiosError."""
        return await self.ask(method, request, repeatable=True)


@dataclass(frozen=True, slots=True)
class Method(Generic[ParamsT]):
    """One row of the table: name, parameters, and who carries it out."""

    name: str
    params: type[ParamsT]
    handler: Callable[[ParamsT, Call], Awaitable[Any]]

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
