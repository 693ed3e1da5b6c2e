"""What the contract already says and this version does not do yet: UNIMPLEMENTED, clearly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from aiosd.api.v1 import (
    access_service_pb2,
    permission_service_pb2,
)
from aiosd.domain.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.descriptor import MethodDescriptor

    from aiosd.adapters.rpc.guard import Guard

PUBLISHED = (
    access_service_pb2,
    permission_service_pb2,
)


class NotImplementedYet(Refusal):
    """Published, not built."""

    reason = "NOT_IMPLEMENTED"


def not_implemented(method: str) -> NotImplementedYet:
    """The refusal of a method that is not built."""
    return NotImplementedYet(f"{method} is not implemented by this version", {"method": method})


def add_unimplemented(server: grpc.aio.Server, guard: Guard) -> list[str]:
    """Answer every method of the services not built; returns the names of the services."""
    names = []
    for module in PUBLISHED:
        for service in module.DESCRIPTOR.services_by_name.values():
            handlers = {one.name: _handler(guard, one) for one in service.methods}
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service.full_name, handlers),)
            )
            names.append(service.full_name)
    return names


def _handler(guard: Guard, method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
    async def refuse(request: Any, context: Any) -> Any:
        raise not_implemented(method.name)

    async def refuse_stream(request: Any, context: Any) -> AsyncIterator[Any]:
        if request is not None:
            raise not_implemented(method.name)
        yield  # never reached; it makes this a stream

    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(guard.stream(refuse_stream, method))
    return grpc.unary_unary_rpc_method_handler(guard.unary(refuse, method))
