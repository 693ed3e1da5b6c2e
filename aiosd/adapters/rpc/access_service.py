"""AccessService: access tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec import tasks as codec
from aiosd.adapters.rpc.codec.scalars import DAY_MS, span, timestamp
from aiosd.api.v1 import access_service_pb2 as wire
from aiosd.api.v1.access_service_pb2_grpc import AccessServiceServicer

if TYPE_CHECKING:
    import grpc

    from aiosd.application.access_writes import AccessToken
    from aiosd.application.core import Core

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
LONGEST_LIFETIME_MS = 3650 * DAY_MS


class AccessService(AccessServiceServicer):
    """What the owner of the service does with tokens."""

    def __init__(self, core: Core) -> None:
        self._tokens = core.tokens

    async def CreateToken(
        self, request: wire.CreateTokenRequest, context: Context
    ) -> wire.CreateTokenResponse:
        lifetime = 0
        if request.HasField("lifetime"):
            lifetime = span(request.lifetime, "lifetime", least=1, most=LONGEST_LIFETIME_MS)
        token, text = await self._tokens.create(
            caller.get(), request.principal, request.scopes, lifetime
        )
        return wire.CreateTokenResponse(token=_to_token(token), secret=text)

    async def ListTokens(
        self, request: wire.ListTokensRequest, context: Context
    ) -> wire.ListTokensResponse:
        size, skip = codec.page_size(request.page_size), codec.from_offset_token(request.page_token)
        found = self._tokens.list(caller.get())
        return wire.ListTokensResponse(
            tokens=[_to_token(one) for one in found[skip : skip + size]],
            next_page_token=str(skip + size) if len(found) > skip + size else "",
        )

    async def RevokeToken(
        self, request: wire.RevokeTokenRequest, context: Context
    ) -> wire.RevokeTokenResponse:
        await self._tokens.revoke(caller.get(), request.token_id)
        return wire.RevokeTokenResponse()


def _to_token(token: AccessToken) -> wire.Token:
    return wire.Token(
        token_id=token.id,
        principal=token.principal,
        scopes=token.scopes,
        expire_time=timestamp(token.expire_time),
        create_time=timestamp(token.create_time),
        last_use_time=timestamp(token.last_use_time),
        revoke_time=timestamp(token.revoke_time),
    )
