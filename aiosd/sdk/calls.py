"""One connection to a daemon, and how calls over it are made and repeated."""

from __future__ import annotations

import asyncio
import time
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from grpc import aio

from aiosd.api.v1 import (
    artifact_service_pb2_grpc,
    capability_service_pb2_grpc,
    operation_service_pb2_grpc,
    system_service_pb2_grpc,
    task_service_pb2_grpc,
)
from aiosd.sdk import rpc_status
from aiosd.sdk.connection import Endpoint, jittered
from aiosd.sdk.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

DEADLINE_MS = 30_000
"""How long a call may take beyond the wait that it asks for."""


class Calls:
    """The channel and the stubs, made when first used, inside the running event loop."""

    def __init__(self, endpoint: Endpoint, patience_ms: int) -> None:
        self._endpoint = endpoint
        self._patience_ms = patience_ms
        self.reached = False
        """True once any answer came: an absence after that is a restart, not a wrong address."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return self._endpoint.metadata()

    @cached_property
    def channel(self) -> aio.Channel:
        return self._endpoint.open()

    @cached_property
    def tasks(self) -> task_service_pb2_grpc.TaskServiceStub:
        return task_service_pb2_grpc.TaskServiceStub(self.channel)

    @cached_property
    def artifacts(self) -> artifact_service_pb2_grpc.ArtifactServiceStub:
        return artifact_service_pb2_grpc.ArtifactServiceStub(self.channel)

    @cached_property
    def capabilities(self) -> capability_service_pb2_grpc.CapabilityServiceStub:
        return capability_service_pb2_grpc.CapabilityServiceStub(self.channel)

    @cached_property
    def operations(self) -> operation_service_pb2_grpc.OperationServiceStub:
        return operation_service_pb2_grpc.OperationServiceStub(self.channel)

    @cached_property
    def system(self) -> system_service_pb2_grpc.SystemServiceStub:
        return system_service_pb2_grpc.SystemServiceStub(self.channel)

    def may_come(self, began: float) -> bool:
        """Whether a daemon that does not answer since `began` (monotonic) may only be restarting.

        One that has answered; and, for as long as the patience lasts, one whose socket lies there.
        """
        waited_ms = (time.monotonic() - began) * 1000
        return self.reached or (waited_ms < self._patience_ms and self._endpoint.has_socket)

    async def close(self) -> None:
        """Close the channel; every open call ends."""
        if "channel" in self.__dict__:
            await self.channel.close()

    async def once(
        self, method: Callable[..., aio.UnaryUnaryCall[_Request, _Response]], request: _Request
    ) -> _Response:
        """Make a call that must not be repeated. Raises AiosdError."""
        return await self._call(method, request, 0)

    async def repeat(
        self,
        method: Callable[..., aio.UnaryUnaryCall[_Request, _Response]],
        request: _Request,
        wait_ms: int = 0,
    ) -> _Response:
        """Make a call that may be repeated while the daemon restarts.

        `wait_ms`: how long the request itself asks the daemon to wait. Raises AiosdError.
        """
        began = time.monotonic()
        give_up = began + self._patience_ms / 1000
        failures = 0
        while True:
            try:
                return await self._call(method, request, wait_ms)
            except Unavailable as problem:
                pause = max(jittered(failures), (problem.retry_after_ms or 0) / 1000)
                if not self.may_come(began) or time.monotonic() + pause > give_up:
                    raise
                failures += 1
                await asyncio.sleep(pause)

    async def _call(
        self,
        method: Callable[..., aio.UnaryUnaryCall[_Request, _Response]],
        request: _Request,
        wait_ms: int,
    ) -> _Response:
        try:
            response = await method(
                request, metadata=self.metadata, timeout=(DEADLINE_MS + wait_ms) / 1000
            )
        except aio.AioRpcError as error:
            problem = rpc_status.from_rpc(error)
            # A reason is the daemon's own word, so somebody is there.
            self.reached = self.reached or problem.reason != ""
            raise problem from None
        self.reached = True
        return response
