"""SessionService: AIOS sessions of client programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec.scalars import DAY_MS, duration, span, timestamp
from aiosd.api.v1 import session_service_pb2 as wire
from aiosd.api.v1.session_service_pb2_grpc import SessionServiceServicer

if TYPE_CHECKING:
    import grpc

    from aiosd.application.core import Core
    from aiosd.application.writes import ClientSession

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
LONGEST_GRACE_MS = 600_000


class SessionService(SessionServiceServicer):
    """Open, read and close sessions."""

    def __init__(self, core: Core) -> None:
        self._sessions = core.client_sessions

    async def CreateSession(
        self, request: wire.CreateSessionRequest, context: Context
    ) -> wire.CreateSessionResponse:
        lifetime = 0
        if request.HasField("lifetime"):
            lifetime = span(request.lifetime, "lifetime", least=1, most=30 * DAY_MS)
        made = await self._sessions.create(caller.get(), request.attributes or "{}", lifetime)
        return wire.CreateSessionResponse(session=_to_session(made))

    async def GetSession(
        self, request: wire.GetSessionRequest, context: Context
    ) -> wire.GetSessionResponse:
        found = await self._sessions.get(caller.get(), request.session_id, renew=request.renew)
        return wire.GetSessionResponse(session=_to_session(found))

    async def CloseSession(
        self, request: wire.CloseSessionRequest, context: Context
    ) -> wire.CloseSessionResponse:
        grace = span(request.grace, "grace", most=LONGEST_GRACE_MS)
        lived, canceled = await self._sessions.close(
            caller.get(), request.session_id, request.reason, grace
        )
        return wire.CloseSessionResponse(canceled_tasks=canceled, lifetime=duration(lived))


def _to_session(session: ClientSession) -> wire.Session:
    return wire.Session(
        session_id=session.id,
        principal=session.principal,
        attributes=session.attributes,
        create_time=timestamp(session.create_time),
        expire_time=timestamp(session.expire_time),
    )
