"""One request of this wire, whatever its binding: who asks, with which parameters, of whom."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from a2a.extensions.common import get_requested_extensions
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError

from aiosd.api.v1 import capability_service_pb2
from gateway.a2a import words
from gateway.a2a.errors import from_daemon, invalid, version_not_supported
from gateway.admission import Admission
from gateway.context import GatewayContext
from gateway.daemon_channel import CALL_TIMEOUT_S, Caller, DaemonError

if TYPE_CHECKING:
    from a2a.server.context import ServerCallContext
    from grpc import aio

    from aiosd.api.v1 import task_pb2

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
T = TypeVar("T")

RESTART_SECONDS: Final = 15.0
"""How long a call that may be made again waits for a daemon that is away."""
_RETRY_DELAY_S: Final = 0.2

REQUEST_STATE: Final = "aios.request"
"""Where the SDK's call context carries our `Request`."""
_VERSION: Final = re.compile(r"1\.0(\.[0-9]+)?")
_AFTER: Final = re.compile(r"[0-9]{1,15}")
_MAX_KEY_CHARS: Final = 128


@dataclass(slots=True)
class Request:
    """What a binding knows of a request before its message is read.

    `parameters` are the service parameters (headers, gRPC metadata), by lower-case name;
    `base_url` is the HTTP origin that a card names. `is_unauthenticated` turns true when the
    daemon did not know the token.
    """

    caller: Caller
    parameters: Mapping[str, str]
    base_url: str
    is_unauthenticated: bool = False

    @property
    def extensions(self) -> frozenset[str]:
        """Our extensions that the request activates; unknown ones are no error (a2a.md 5.2)."""
        asked = get_requested_extensions([self.parameters.get(words.EXTENSIONS_PARAMETER, "")])
        return frozenset(asked & words.EXTENSIONS.keys())

    def check_version(self) -> None:
        """Raise VersionNotSupportedError unless the request speaks 1.0; patches are ignored."""
        given = self.parameters.get(words.VERSION_PARAMETER, "").strip()
        if not _VERSION.fullmatch(given):
            raise version_not_supported(given[:40])

    def after(self) -> int | None:
        """The event after which a stream is to go on; None without the extension or the number."""
        given = self.parameters.get(words.AFTER_PARAMETER, "")
        if not given or words.RESUMABLE_STREAMS not in self.extensions:
            return None
        if not _AFTER.fullmatch(given):
            raise invalid("AIOS-After", "must be the aiosSequence of a stream item")
        return int(given)

    def request_id(self, message_id: str, *, dedupe: bool) -> str:
        """The idempotency key of a new task: the caller's, else one that protects our own retry."""
        key = self.parameters.get(words.IDEMPOTENCY_PARAMETER, "")
        if len(key) > _MAX_KEY_CHARS:
            raise invalid("Idempotency-Key", f"must not exceed {_MAX_KEY_CHARS} characters")
        if not key and dedupe:
            key = message_id
        return key or f"a2a-{secrets.token_hex(16)}"


@dataclass(slots=True)
class Call:
    """One request of a known caller, with its tenant.

    `tenants` are those that were found to be capabilities, shared by all calls.
    """

    context: GatewayContext
    admission: Admission
    request: Request
    tenant: str
    tenants: set[str]

    async def ask(
        self,
        method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT],
        request: RequestT,
        *,
        wait_ms: int = 0,
        repeatable: bool = False,
    ) -> ResponseT:
        """Call the daemon, which may take `wait_ms` longer than usual. Raises A2AError.

        `repeatable`: the same call twice has the effect of one, so a restart of the daemon in the
        middle of it is waited for and not told.
        """
        timeout_s = CALL_TIMEOUT_S + wait_ms / 1000

        async def once() -> ResponseT:
            return await self.context.daemon.call(
                method, request, self.request.caller, timeout_s=timeout_s, repeatable=repeatable
            )

        try:
            return await (patiently(once) if repeatable else once())
        except DaemonError as refused:
            raise self.refuse(refused) from None

    async def read(
        self,
        method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT],
        request: RequestT,
        *,
        wait_ms: int = 0,
    ) -> ResponseT:
        """As `ask`, for what changes nothing."""
        return await self.ask(method, request, wait_ms=wait_ms, repeatable=True)

    def refuse(self, refused: DaemonError) -> Exception:
        """The error to raise; a token that is not good any more is forgotten."""
        if refused.is_unauthenticated:
            self.request.is_unauthenticated = True
            self.admission.forget(self.request.caller)
        return from_daemon(refused)

    def activates(self, extension: str) -> bool:
        """Whether the request asks for one of our extensions."""
        return extension in self.request.extensions

    @property
    def dedupes(self) -> bool:
        """Whether a messageId that comes again means the same message."""
        return self.context.settings.a2a_message_dedupe or self.activates(words.MESSAGE_DEDUPE)

    def check_owned(self, task: task_pb2.Task) -> None:
        """Raise TaskNotFoundError for a task that is not of the tenant (a2a.md 5.12)."""
        if self.tenant and task.capability_id != self.tenant:
            raise TaskNotFoundError

    async def check_tenant(self) -> None:
        """Raise TaskNotFoundError for a tenant that is no capability."""
        if not self.tenant or self.tenant in self.tenants:
            return
        request = capability_service_pb2.GetCapabilityRequest(capability_id=self.tenant)
        try:
            await self.read(self.context.daemon.capabilities.GetCapability, request)
        except InvalidParamsError:
            raise TaskNotFoundError("there is no such tenant") from None
        # The daemon never forgets a capability.
        self.tenants.add(self.tenant)


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again while the daemon restarts, for RESTART_SECONDS at most. Raises DaemonError."""
    give_up_at = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            return await ask()
        except DaemonError as refused:
            if not refused.is_unavailable or time.monotonic() > give_up_at:
                raise
        await asyncio.sleep(_RETRY_DELAY_S)


async def open_call(
    context: GatewayContext,
    admission: Admission,
    tenants: set[str],
    sdk: ServerCallContext,
    tenant: str,
) -> Call:
    """The call of a request that the SDK hands over; a tenant in the path wins over the body's.

    Raises A2AError for a wrong version, a bad token or an unknown tenant.
    """
    request: Request = sdk.state[REQUEST_STATE]
    request.check_version()
    call = Call(context, admission, request, sdk.tenant or tenant, tenants)
    try:
        await patiently(lambda: admission.check(request.caller))
    except DaemonError as refused:
        raise call.refuse(refused) from None
    await call.check_tenant()
    return call
