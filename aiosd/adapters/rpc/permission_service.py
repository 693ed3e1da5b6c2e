"""PermissionService: decode, one use case, encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec import tasks as codec
from aiosd.adapters.rpc.codec.scalars import DAY_MS, member, span, timestamp
from aiosd.api.v1 import permission_pb2
from aiosd.api.v1 import permission_service_pb2 as wire
from aiosd.api.v1.permission_service_pb2_grpc import PermissionServiceServicer
from aiosd.application import json_text
from aiosd.application.permission_requests import Wish
from aiosd.domain.capability import PermissionLevel
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.permission import GrantDuration, Lifetime

if TYPE_CHECKING:
    import grpc

    from aiosd.api.v1 import capability_pb2
    from aiosd.application.core import Core
    from aiosd.domain.permission import Grant

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
LONGEST_LIFETIME_MS = 365 * DAY_MS


class PermissionService(PermissionServiceServicer):
    """What programs do about permissions."""

    def __init__(self, core: Core) -> None:
        self._requests = core.permission_requests

    async def RequestPermission(
        self, request: wire.RequestPermissionRequest, context: Context
    ) -> wire.RequestPermissionResponse:
        wishes = [_wish(one, f"permissions[{at}]") for at, one in enumerate(request.permissions)]
        asked = await self._requests.request(
            caller.get(), request.capability_id, wishes, request.session_id
        )
        return wire.RequestPermissionResponse(
            granted=asked.granted,
            grants=[_to_grant(one) for one in asked.grants],
            reason=asked.reason,
        )

    async def ListGrants(
        self, request: wire.ListGrantsRequest, context: Context
    ) -> wire.ListGrantsResponse:
        size, skip = codec.page_size(request.page_size), codec.from_offset_token(request.page_token)
        found = await self._requests.grants(caller.get(), request.session_id, request.capability_id)
        return wire.ListGrantsResponse(
            grants=[_to_grant(one) for one in found[skip : skip + size]],
            next_page_token=str(skip + size) if len(found) > skip + size else "",
        )

    async def RevokeGrants(
        self, request: wire.RevokeGrantsRequest, context: Context
    ) -> wire.RevokeGrantsResponse:
        count = await self._requests.revoke(caller.get(), request.grant_id, request.capability_id)
        return wire.RevokeGrantsResponse(revoked_count=count)


def _wish(message: permission_pb2.PermissionWish, field: str) -> Wish:
    member(PermissionLevel, message.level, f"{field}.level")
    for name in ("permission_id", "scope", "reason"):
        json_text.check_text(getattr(message, name), f"{field}.{name}")
    lifetime = None
    if message.duration:
        duration = member(GrantDuration, message.duration, f"{field}.duration")
        ms = 0
        if duration is GrantDuration.TIMED:
            ms = span(message.lifetime, f"{field}.lifetime", least=1, most=LONGEST_LIFETIME_MS)
        elif message.HasField("lifetime"):
            raise ArgumentInvalid(f"{field}.lifetime", "counts only for the duration TIMED")
        lifetime = Lifetime(duration, ms)
    return Wish(message.permission_id, message.scope, lifetime, message.reason)


def _to_grant(grant: Grant) -> permission_pb2.Grant:
    return permission_pb2.Grant(
        grant_id=grant.id,
        permission_id=grant.permission_id,
        level=cast("capability_pb2.PermissionLevel.ValueType", int(grant.level)),
        scope=grant.scope,
        principal=grant.principal,
        tool_id=grant.tool_id,
        duration=cast("permission_pb2.GrantDuration.ValueType", int(grant.duration)),
        expire_time=timestamp(grant.expire_time),
        task_id=grant.task_id,
        session_id=grant.session_id,
        issued_by=grant.issued_by,
        create_time=timestamp(grant.create_time),
        use_count=grant.use_count,
    )
