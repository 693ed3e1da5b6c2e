"""Runtime operations and instances, for clients."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from aiosd.api.v1 import operation_pb2, operation_service_pb2
from aiosd.sdk import json_text, requests, rpc_status
from aiosd.sdk.connection import jittered

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncGenerator

    from aiosd.sdk.calls import Calls

_PAGE = 200
_COME_BACK = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})


class OperationCalls:
    """Control commands to attached providers; reached as `client.operations`.

    Operations, events and instances are the messages of the contract (`aiosd.api.v1`).
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(
        self,
        target_id: str,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        scope: str = "instance",
        deadline_ms: int = 0,
        request_id: str | None = None,
    ) -> operation_pb2.Operation:
        """Ask for an operation; it is durable when this returns, and says nothing of its success.

        `scope` is instance, agent or conversation; the id of the latter two is `INSTANCE:NAME`.
        `deadline_ms`: execution limit, at most 7 days; 0: none. `request_id`: as for tasks. Raises
        NotFound (INSTANCE_NOT_FOUND), InvalidArgument (METHOD_NOT_SUPPORTED).
        """
        request = operation_service_pb2.CreateOperationRequest(
            target=operation_pb2.OperationTarget(scope=scope, id=target_id),
            method=method,
            params=json_text.dump_object(params or {}, "params"),
            request_id=requests.idempotency_key(request_id),
        )
        if deadline_ms:
            request.deadline.FromMilliseconds(deadline_ms)
        return (await self._calls.repeat(self._calls.operations.CreateOperation, request)).operation

    async def get(self, operation_id: str) -> operation_pb2.Operation:
        """Read one. Raises NotFound (OPERATION_NOT_FOUND)."""
        request = operation_service_pb2.GetOperationRequest(operation_id=operation_id)
        return (await self._calls.repeat(self._calls.operations.GetOperation, request)).operation

    async def list(
        self, *, active: bool = False, instance_id: str = "", limit: int = 50, page_token: str = ""
    ) -> operation_service_pb2.ListOperationsResponse:
        """One page of the caller's operations, newest first; `limit` 1..200."""
        request = operation_service_pb2.ListOperationsRequest(
            active=active, instance_id=instance_id, page_size=limit, page_token=page_token
        )
        return await self._calls.repeat(self._calls.operations.ListOperations, request)

    async def cancel(self, operation_id: str, reason: str = "") -> operation_pb2.Operation:
        """Ask for it to stop. Raises Refused (OPERATION_NOT_CANCELLABLE) after its effect."""
        request = operation_service_pb2.CancelOperationRequest(
            operation_id=operation_id, reason=reason
        )
        return (await self._calls.once(self._calls.operations.CancelOperation, request)).operation

    async def close(self, operation_id: str) -> operation_pb2.Operation:
        """Give a blocked projection up. Raises Refused (OPERATION_NOT_BLOCKED)."""
        request = operation_service_pb2.CloseOperationRequest(operation_id=operation_id)
        return (await self._calls.once(self._calls.operations.CloseOperation, request)).operation

    async def subscribe(
        self, operation_id: str, after: int = 0
    ) -> AsyncGenerator[operation_pb2.OperationEvent, None]:
        """Every event after a number, replayed, then live; ends with the last of a terminal one.

        Resumes by itself when the daemon restarts. Raises AiosdError (NotFound, OUT_OF_RANGE with
        OPERATION_CURSOR_AHEAD).
        """
        cursor, failures, began = after, 0, time.monotonic()
        while True:
            request = operation_service_pb2.SubscribeToOperationRequest(
                operation_id=operation_id, after_sequence=cursor
            )
            call = self._calls.operations.SubscribeToOperation(
                request, metadata=self._calls.metadata
            )
            try:
                async for response in call:
                    self._calls.reached, failures = True, 0
                    for event in response.events:
                        cursor = event.sequence
                        yield event
                return
            except aio.AioRpcError as error:
                problem = rpc_status.from_rpc(error)
                known = self._calls.may_come(began) or problem.reason != ""
                if problem.code not in _COME_BACK or not known:
                    raise problem from None
                await asyncio.sleep(max(jittered(failures), (problem.retry_after_ms or 0) / 1000))
                failures += 1
            finally:
                call.cancel()

    async def wait(self, operation_id: str) -> operation_pb2.Operation:
        """The operation once nothing can follow."""
        async for event in self.subscribe(operation_id):
            if event.snapshot.terminal:
                break
        return await self.get(operation_id)

    async def instances(self) -> builtins.list[operation_pb2.Instance]:
        """Every instance that ever attached, by id."""
        found: builtins.list[operation_pb2.Instance] = []
        request = operation_service_pb2.ListInstancesRequest(page_size=_PAGE)
        while True:
            page = await self._calls.repeat(self._calls.operations.ListInstances, request)
            found += page.instances
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def instance(self, instance_id: str) -> operation_pb2.Instance:
        """One instance with its projected state. Raises NotFound (INSTANCE_NOT_FOUND)."""
        request = operation_service_pb2.GetInstanceRequest(instance_id=instance_id)
        return (await self._calls.repeat(self._calls.operations.GetInstance, request)).instance
