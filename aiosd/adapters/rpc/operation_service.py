"""OperationService: decode, one use case, encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.adapters.rpc.calls import caller, trace_parent
from aiosd.adapters.rpc.codec import operations as codec
from aiosd.adapters.rpc.codec.tasks import page_size
from aiosd.api.v1 import operation_service_pb2 as wire
from aiosd.api.v1.operation_service_pb2_grpc import OperationServiceServicer
from aiosd.application.ports import OperationQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import grpc

    from aiosd.api.v1 import operation_pb2
    from aiosd.application.core import Core
    from aiosd.domain.instance import Instance

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class OperationService(OperationServiceServicer):
    """Runtime operations and the instances that they act on."""

    def __init__(self, core: Core) -> None:
        self._operations = core.operations
        self._quotas = core.quotas

    async def CreateOperation(
        self, request: wire.CreateOperationRequest, context: Context
    ) -> wire.CreateOperationResponse:
        new = codec.from_create(request, trace_parent.get())
        made, created = await self._operations.create(caller.get(), new)
        return wire.CreateOperationResponse(operation=codec.to_operation(made), created=created)

    async def GetOperation(
        self, request: wire.GetOperationRequest, context: Context
    ) -> wire.GetOperationResponse:
        found = await self._operations.get(caller.get(), request.operation_id)
        return wire.GetOperationResponse(operation=codec.to_operation(found))

    async def ListOperations(
        self, request: wire.ListOperationsRequest, context: Context
    ) -> wire.ListOperationsResponse:
        size = page_size(request.page_size)
        query = OperationQuery(
            instance_id=request.instance_id,
            active=request.active,
            before=request.page_token,
            limit=size + 1,
        )
        found = await self._operations.list(caller.get(), query)
        return wire.ListOperationsResponse(
            operations=[codec.to_operation(one) for one in found[:size]],
            next_page_token=found[size - 1].id if len(found) > size else "",
        )

    async def CancelOperation(
        self, request: wire.CancelOperationRequest, context: Context
    ) -> wire.CancelOperationResponse:
        asked = await self._operations.cancel(caller.get(), request.operation_id, request.reason)
        return wire.CancelOperationResponse(operation=codec.to_operation(asked))

    async def SubscribeToOperation(
        self, request: wire.SubscribeToOperationRequest, context: Context
    ) -> AsyncIterator[wire.SubscribeToOperationResponse]:
        who = caller.get()
        with self._quotas.subscription(who.principal):
            events = self._operations.follow(who, request.operation_id, request.after_sequence)
            async for batch in events:
                yield wire.SubscribeToOperationResponse(
                    events=[codec.to_operation_event(one) for one in batch]
                )

    async def CloseOperation(
        self, request: wire.CloseOperationRequest, context: Context
    ) -> wire.CloseOperationResponse:
        closed = await self._operations.close(caller.get(), request.operation_id)
        return wire.CloseOperationResponse(operation=codec.to_operation(closed))

    async def ListInstances(
        self, request: wire.ListInstancesRequest, context: Context
    ) -> wire.ListInstancesResponse:
        size = page_size(request.page_size)
        found = [
            one
            for one in self._operations.instances(caller.get())
            if one.id > request.page_token or not request.page_token
        ]
        return wire.ListInstancesResponse(
            instances=[self._instance(one) for one in found[:size]],
            next_page_token=found[size - 1].id if len(found) > size else "",
        )

    async def GetInstance(
        self, request: wire.GetInstanceRequest, context: Context
    ) -> wire.GetInstanceResponse:
        found = self._operations.instance(caller.get(), request.instance_id)
        return wire.GetInstanceResponse(instance=self._instance(found))

    def _instance(self, instance: Instance) -> operation_pb2.Instance:
        return codec.to_instance(instance, self._operations.attached(instance.id))
