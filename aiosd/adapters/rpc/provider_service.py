"""ProviderService: one Attach stream, read and written by two halves (E09)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd import __version__
from aiosd.adapters.rpc.calls import caller
from aiosd.adapters.rpc.codec import provider as codec
from aiosd.adapters.rpc.codec.operations import from_operation_report
from aiosd.adapters.rpc.sizes import groups
from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.provider.v1.provider_service_pb2_grpc import ProviderServiceServicer
from aiosd.application.errors import SessionLost, ShuttingDown
from aiosd.application.messages import HeartbeatAck, ToProvider
from aiosd.domain.errors import ArgumentInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import grpc

    from aiosd.application.access import Caller
    from aiosd.application.core import Core
    from aiosd.application.sessions import Session

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
MOST_AT_ONCE = 256


class Link:
    """The daemon's end of a stream: what waits to be written, and why it should end."""

    def __init__(self) -> None:
        self._waiting: deque[ToProvider] = deque()
        self._signal = asyncio.Event()
        self.end: Exception | None = None
        self.ended = False

    def send(self, message: ToProvider) -> None:
        """Queue a message; a dead stream is found by its lease."""
        self._waiting.append(message)
        self._signal.set()

    def close(self, session_lost: bool) -> None:
        """End the stream after what waits was written."""
        self.finish(SessionLost() if session_lost else None)

    def finish(self, error: Exception | None) -> None:
        """End the stream, with an error or without."""
        if not self.ended:
            self.ended = True
            self.end = error
        self._signal.set()

    async def batches(self) -> AsyncIterator[list[ToProvider]]:
        """What waits, as many at once as fit; ends after `finish`."""
        while True:
            if not self._waiting:
                if self.ended:
                    return
                self._signal.clear()
                await self._signal.wait()
                continue
            count = min(len(self._waiting), MOST_AT_ONCE)
            yield [self._waiting.popleft() for _ in range(count)]


class ProviderService(ProviderServiceServicer):
    """How programs execute tasks."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._links: set[Link] = set()

    def stop(self) -> None:
        """End every stream with UNAVAILABLE: providers attach again with the same session."""
        for link in tuple(self._links):
            link.finish(ShuttingDown())

    async def Attach(
        self, request_iterator: AsyncIterator[wire.AttachRequest], context: Context
    ) -> AsyncIterator[wire.AttachResponse]:
        who = caller.get()
        who.require_attach()
        link = Link()
        self._links.add(link)
        reader = asyncio.ensure_future(self._read(request_iterator, who, link))
        try:
            async for batch in link.batches():
                now = self._core.clock.now()
                encoded = (codec.to_daemon_message(one, now, __version__) for one in batch)
                for group in groups(encoded):
                    yield wire.AttachResponse(messages=group)
            if link.end is not None:
                raise link.end
        finally:
            self._links.discard(link)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(
        self, requests: AsyncIterator[wire.AttachRequest], who: Caller, link: Link
    ) -> None:
        """Read until the stream ends; an end without Detach leaves the lease running."""
        session: Session | None = None
        try:
            async for request in requests:
                for message in request.messages:
                    if session is None:
                        session = await self._attach(message, who, link)
                    elif await self._take(session, message, link):
                        return
        except Exception as error:
            link.finish(error)
            raise
        finally:
            if session is not None:
                self._core.execution.disconnect(session, link)
            link.finish(None)

    async def _attach(self, message: wire.ProviderMessage, who: Caller, link: Link) -> Session:
        if message.WhichOneof("message") != "hello":
            raise ArgumentInvalid("hello", "must be the first message of a stream")
        hello = codec.from_hello(message.hello)
        for capability in hello.capabilities:
            who.require_offer(capability.id)
        if hello.instance is not None:
            self._core.instances.check(hello.instance, who.principal)
        await self._core.capabilities.remember(hello.capabilities)
        details = {
            "provider": hello.name,
            "capabilities": sorted(one.id for one in hello.capabilities),
            "instance_id": hello.instance.instance_id if hello.instance is not None else "",
        }
        await self._core.audit.note("provider.attached", "allowed", details)
        return await self._core.execution.attach(hello, who.principal, link)

    async def _take(self, session: Session, message: wire.ProviderMessage, link: Link) -> bool:
        """Handle one message; True after Detach."""
        core = self._core
        if core.sessions.get(session.id) is not session or session.link is not link:
            raise SessionLost
        match message.WhichOneof("message"):
            case "heartbeat":
                core.sessions.heartbeat(session)
                link.send(HeartbeatAck(message.heartbeat.number))
            case "report":
                report = codec.from_report(message.report, core.clock.now())
                await core.execution.report(session, report)
            case "operation_report":
                said = from_operation_report(message.operation_report)
                await core.operating.report(session, said)
            case "accept":
                accept = message.accept
                core.execution.accept(session, accept.task_id, accept.attempt)
            case "reject":
                no = message.reject
                core.execution.reject(
                    session, no.task_id, no.attempt, busy=no.busy, reason=no.reason[:1024]
                )
            case "credits":
                core.execution.change_credits(session, message.credits.credits)
            case "detach":
                await core.execution.detach(session)
                return True
            case "hello":
                raise ArgumentInvalid("hello", "only the first message of a stream may be one")
            case _:
                raise ArgumentInvalid("message", "is not known to this daemon")
        return False
