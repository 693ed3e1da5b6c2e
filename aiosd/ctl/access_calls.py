"""Calls of the contract about permissions and tokens that the SDK's client has no method for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc import aio

from aiosd.api.v1 import (
    access_service_pb2,
    access_service_pb2_grpc,
    permission_pb2,
    permission_service_pb2,
    permission_service_pb2_grpc,
)
from aiosd.sdk import rpc_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.sdk import Client

DEADLINE_S = 30
PAGE = 200


async def list_grants(client: Client, capability_id: str) -> list[permission_pb2.Grant]:
    """The grants that hold. Raises AiosdError."""
    stub = permission_service_pb2_grpc.PermissionServiceStub(client.channel)
    found: list[permission_pb2.Grant] = []
    request = permission_service_pb2.ListGrantsRequest(capability_id=capability_id, page_size=PAGE)
    while True:
        page = await _ask(client, stub.ListGrants, request)
        found += page.grants
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def revoke_grants(client: Client, grant_id: str, capability_id: str) -> int:
    """Take grants back; how many. Raises AiosdError."""
    stub = permission_service_pb2_grpc.PermissionServiceStub(client.channel)
    request = permission_service_pb2.RevokeGrantsRequest(
        grant_id=grant_id, capability_id=capability_id
    )
    return int((await _ask(client, stub.RevokeGrants, request)).revoked_count)


async def create_token(
    client: Client, principal: str, scopes: Sequence[str], lifetime_ms: int
) -> access_service_pb2.CreateTokenResponse:
    """A token and its text. Raises AiosdError."""
    stub = access_service_pb2_grpc.AccessServiceStub(client.channel)
    request = access_service_pb2.CreateTokenRequest(principal=principal, scopes=scopes)
    if lifetime_ms:
        request.lifetime.FromMilliseconds(lifetime_ms)
    answer: access_service_pb2.CreateTokenResponse = await _ask(client, stub.CreateToken, request)
    return answer


async def list_tokens(client: Client) -> list[access_service_pb2.Token]:
    """Every token, without its text. Raises AiosdError."""
    stub = access_service_pb2_grpc.AccessServiceStub(client.channel)
    found: list[access_service_pb2.Token] = []
    request = access_service_pb2.ListTokensRequest(page_size=PAGE)
    while True:
        page = await _ask(client, stub.ListTokens, request)
        found += page.tokens
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def revoke_token(client: Client, token_id: str) -> None:
    """End a token. Raises AiosdError."""
    stub = access_service_pb2_grpc.AccessServiceStub(client.channel)
    request = access_service_pb2.RevokeTokenRequest(token_id=token_id)
    await _ask(client, stub.RevokeToken, request)


async def _ask(client: Client, method: Any, request: Any) -> Any:
    try:
        return await method(request, metadata=client.metadata, timeout=DEADLINE_S)
    except aio.AioRpcError as error:
        raise rpc_status.from_rpc(error) from None
