"""Calls of the contract that the SDK's client has no method for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpc import aio

from aiosd.api.v1 import system_service_pb2, system_service_pb2_grpc
from aiosd.sdk import rpc_status

if TYPE_CHECKING:
    from aiosd.sdk import Client

DEADLINE_S = 30


async def list_providers(client: Client) -> list[system_service_pb2.Provider]:
    """The providers that are attached now. Raises AiosdError."""
    stub = system_service_pb2_grpc.SystemServiceStub(client.channel)
    try:
        answer = await stub.ListProviders(
            system_service_pb2.ListProvidersRequest(),
            metadata=client.metadata,
            timeout=DEADLINE_S,
        )
    except aio.AioRpcError as error:
        raise rpc_status.from_rpc(error) from None
    return list(answer.providers)
