"""The gateway's one connection to the daemon, and the error that its calls raise.

Every call carries the caller's bearer token, trace and request id as metadata; the daemon alone
decides who the caller is. A call waits a short while for a daemon that is just being restarted, so
that a restart looks like a slow answer and not like a failure. A call that could take effect twice
is never sent twice.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_health.v1 import health_pb2

from aiosd.api.v1.access_service_pb2_grpc import AccessServiceStub
from aiosd.api.v1.artifact_service_pb2_grpc import ArtifactServiceStub
from aiosd.api.v1.capability_service_pb2_grpc import CapabilityServiceStub
from aiosd.api.v1.operation_service_pb2_grpc import OperationServiceStub
from aiosd.api.v1.permission_service_pb2_grpc import PermissionServiceStub
from aiosd.api.v1.session_service_pb2_grpc import SessionServiceStub
from aiosd.api.v1.subscription_service_pb2_grpc import SubscriptionServiceStub
from aiosd.api.v1.system_service_pb2_grpc import SystemServiceStub
from aiosd.api.v1.task_service_pb2_grpc import TaskServiceStub
from aiosd.api.v1.webhook_service_pb2_grpc import WebhookServiceStub

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

UNAVAILABLE: Final = "DAEMON_UNAVAILABLE"
"""Reason of an error that the daemon did not write itself: nobody answered."""
STARTING: Final = "STARTING"
"""Reason of a daemon that has not looked through its store yet; the call had no effect."""
SHUTTING_DOWN: Final = "SHUTTING_DOWN"
"""Reason of a daemon that stops: nothing was done."""
TIMED_OUT: Final = "DAEMON_TIMED_OUT"
"""Reason when the daemon took longer than the call may take."""

CALL_TIMEOUT_S: Final = 30.0
READY_TIMEOUT_S: Final = 8.0
"""How long a call waits for a daemon that is not there before it fails."""
_HEALTH_TIMEOUT_S: Final = 1.0
_REPEAT_DELAY_S: Final = 0.1
_DETAILS_KEY: Final = "grpc-status-details-bin"
_MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One argument that the daemon refused, by the field's name in the contract."""

    field: str
    description: str


class DaemonError(Exception):
    """What the daemon refused or failed to do, without any type of gRPC but the code.

    `reason` is the stable word of google.rpc.ErrorInfo, or `UNAVAILABLE`, or `TIMED_OUT`.
    `unsent` is true when the request certainly never reached a daemon.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        code: grpc.StatusCode,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: tuple[Violation, ...] = (),
        retry_after_ms: int | None = None,
        unsent: bool = False,
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.code = code
        self.metadata: Mapping[str, str] = metadata or {}
        self.violations = violations
        self.retry_after_ms = retry_after_ms
        self.unsent = unsent

    @property
    def is_unavailable(self) -> bool:
        """Whether a daemon that runs again might answer the same call."""
        return self.reason in (UNAVAILABLE, SHUTTING_DOWN, STARTING)

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the bearer token says nothing to the daemon."""
        return self.code is grpc.StatusCode.UNAUTHENTICATED


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a call is made, and as part of what.

    Without a bearer token the daemon takes the gateway itself, which owns its socket, for the
    caller. Only routes that the guards let through without one, and that tell nothing of any task,
    ever have such a caller.
    """

    bearer: str
    trace_parent: str
    request_id: str

    @property
    def trace_id(self) -> str:
        """The 32 hexadecimal digits of the W3C trace."""
        return self.trace_parent.split("-")[1]

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The gRPC metadata of every call. Without a token the socket alone vouches for it."""
        authorization = (("authorization", f"Bearer {self.bearer}"),) if self.bearer else ()
        return (
            *authorization,
            ("traceparent", self.trace_parent),
            ("x-request-id", self.request_id),
        )


class DaemonChannel:
    """All stubs over one connection. Open it inside the running event loop; close it once."""

    def __init__(self, address: str) -> None:
        """Connect lazily to `address`, such as `unix:/run/aiosd/aiosd.sock`."""
        self._channel = aio.insecure_channel(address, options=_OPTIONS)
        self._check_health: aio.UnaryUnaryMultiCallable[
            health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
        ] = self._channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        self.access = AccessServiceStub(self._channel)
        self.artifacts = ArtifactServiceStub(self._channel)
        self.capabilities = CapabilityServiceStub(self._channel)
        self.operations = OperationServiceStub(self._channel)
        self.permissions = PermissionServiceStub(self._channel)
        self.sessions = SessionServiceStub(self._channel)
        self.subscriptions = SubscriptionServiceStub(self._channel)
        self.system = SystemServiceStub(self._channel)
        self.tasks = TaskServiceStub(self._channel)
        self.webhooks = WebhookServiceStub(self._channel)

    async def close(self) -> None:
        """End every call that is still open."""
        await self._channel.close()

    async def is_serving(self) -> bool:
        """Ask the daemon's health service; False also when nobody answers within a second."""
        try:
            answer = await self._check_health(
                health_pb2.HealthCheckRequest(), timeout=_HEALTH_TIMEOUT_S
            )
        except aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def call(
        self,
        method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT],
        request: RequestT,
        caller: Caller,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        repeatable: bool = False,
    ) -> ResponseT:
        """Make one call. Raises DaemonError and nothing else.

        `repeatable` says that the same call twice has the effect of one: it is then made again
        when the daemon went away under it. What a stopping daemon turned away had no effect and
        is always made again.
        """
        give_up = time.monotonic() + READY_TIMEOUT_S
        while True:
            await self._ready()
            try:
                return await method(request, timeout=timeout_s, metadata=caller.metadata())
            except aio.AioRpcError as error:
                refused = from_rpc_error(error)
            again = refused.reason == SHUTTING_DOWN or (repeatable and refused.is_unavailable)
            if not again or time.monotonic() > give_up:
                raise refused
            await asyncio.sleep(_REPEAT_DELAY_S)

    async def stream(
        self,
        method: aio.UnaryStreamMultiCallable[RequestT, ResponseT],
        request: RequestT,
        caller: Caller,
    ) -> AsyncGenerator[ResponseT, None]:
        """Yield the responses of one streaming call, without a deadline.

        Raises DaemonError and nothing else. The call is cancelled when the generator is closed.
        """
        await self._ready()
        call = method(request, metadata=caller.metadata())
        try:
            async for response in call:
                yield response
        except aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        finally:
            # A call that was merely dropped goes on until the channel closes.
            call.cancel()

    async def _ready(self) -> None:
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return
        try:
            await asyncio.wait_for(self._channel.channel_ready(), READY_TIMEOUT_S)
        except TimeoutError:
            raise DaemonError(
                UNAVAILABLE,
                "the daemon does not answer",
                grpc.StatusCode.UNAVAILABLE,
                unsent=True,
            ) from None


def from_rpc_error(error: aio.AioRpcError) -> DaemonError:
    """Read the rich status of a failed call; plain codes get a reason of our own."""
    code = error.code()
    rich = _rich_status(error)
    reason = ""
    metadata: dict[str, str] = {}
    violations: list[Violation] = []
    retry_after_ms: int | None = None
    for detail in rich.details if rich is not None else ():
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            violations += [Violation(v.field, v.description) for v in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after_ms = retry.retry_delay.ToMilliseconds()
    # Text that gRPC itself wrote names sockets and addresses; only the daemon's own words go on.
    message = (error.details() or "") if reason else "the daemon did not carry out the call"
    return DaemonError(
        reason or _PLAIN_REASONS.get(code, "INTERNAL"),
        message,
        code,
        metadata=metadata,
        violations=tuple(violations),
        retry_after_ms=retry_after_ms,
    )


_PLAIN_REASONS: Final = {
    grpc.StatusCode.UNAVAILABLE: UNAVAILABLE,
    grpc.StatusCode.CANCELLED: UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: TIMED_OUT,
    grpc.StatusCode.UNIMPLEMENTED: "NOT_IMPLEMENTED",
    grpc.StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED",
    grpc.StatusCode.PERMISSION_DENIED: "PERMISSION_DENIED",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "MESSAGE_TOO_LARGE",
}


def _rich_status(error: aio.AioRpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    return None
