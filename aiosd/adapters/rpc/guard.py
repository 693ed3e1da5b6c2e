"""What happens around every call: caller, errors, trace. Wrapped once, at registration.

A handler raises; the guard answers. Nothing that it does not know reaches the client as text.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiosd.adapters.rpc.authorization import authorize, scopes_of
from aiosd.adapters.rpc.calls import caller, trace_parent
from aiosd.adapters.rpc.errors import status_of
from aiosd.adapters.rpc.identity import Identity, bearer
from aiosd.adapters.rpc.origins import changes_state, made_by, origin_of, subject
from aiosd.adapters.rpc.peers import Failures, certified, is_local
from aiosd.application.errors import PermissionDenied, RateLimited, Starting, Unauthenticated
from aiosd.application.origin import origin
from aiosd.domain.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

    from aiosd.adapters.rpc.tracing import Tracing
    from aiosd.application.access import Caller
    from aiosd.application.audit import Audit
    from aiosd.application.quotas import Quotas

MOST_CALLS = 1024
MOST_STREAMS = 4096


class _Places:
    """How many calls of one kind may be open at once, whoever makes them (S-21)."""

    def __init__(self, kind: str, most: int) -> None:
        self._kind = kind
        self._most = most
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Keep a place; raises RateLimited when all are taken."""
        if self._taken >= self._most:
            raise RateLimited(f"{self._most} {self._kind} are open at once already")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class Guard:
    """Wraps the methods of servicers."""

    def __init__(self, identity: Identity, tracing: Tracing, audit: Audit, quotas: Quotas) -> None:
        self._identity = identity
        self._audit = audit
        self._quotas = quotas
        self._failures = Failures()
        self._tracing = tracing
        # Apart, so that readers who stay cannot keep out everybody who asks.
        self._calls = _Places("calls", MOST_CALLS)
        self._streams = _Places("streams", MOST_STREAMS)
        #: False until recovery is done: every call is answered with UNAVAILABLE.
        self.open = False

    def around(self, servicer: object, service: ServiceDescriptor) -> None:
        """Replace every method of `service` on this servicer by its guarded form."""
        for method in service.methods:
            handler = getattr(servicer, method.name)
            wrap = self.stream if method.server_streaming else self.unary
            setattr(servicer, method.name, wrap(handler, method))

    def unary(self, handler: Callable[..., Any], method: MethodDescriptor) -> Callable[..., Any]:
        """The guarded form of a method with one response."""
        name, wanted = method.full_name, scopes_of(method)

        async def guarded(request: Any, context: Any) -> Any:
            try:
                await self._enter(context, method, request, wanted)
                with self._calls.one(), self._tracing.span(name):
                    return await handler(request, context)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                await self._refused(error, method, request)
                await _abort(error, context)

        return guarded

    def stream(self, handler: Callable[..., Any], method: MethodDescriptor) -> Callable[..., Any]:
        """The guarded form of a method with many responses."""
        name, wanted = method.full_name, scopes_of(method)

        async def guarded(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                await self._enter(context, method, request, wanted)
                with self._streams.one(), self._tracing.span(name):
                    async for response in handler(request, context):
                        yield response
            except asyncio.CancelledError:
                raise
            except Exception as error:
                await self._refused(error, method, request)
                await _abort(error, context)

        return guarded

    async def _enter(
        self, context: Any, method: MethodDescriptor, request: Any, wanted: tuple[str, ...]
    ) -> None:
        if not self.open:
            raise Starting
        metadata = {
            key: value for key, value in context.invocation_metadata() if isinstance(value, str)
        }
        origin.set(origin_of("", method.name, request))
        who = await self._identify(context, metadata)
        caller.set(who)
        origin.set(origin_of(who.principal, method.name, request))
        trace_parent.set(self._tracing.accept(metadata))
        authorize(who, wanted)
        if makes := made_by(method, request):
            self._quotas.spend(who.principal, makes)

    async def _identify(self, context: Any, metadata: dict[str, str]) -> Caller:
        local = is_local(context)
        try:
            token = bearer(metadata)
            if token is None and not local:
                named = certified(context)
                if named is None:
                    raise Unauthenticated
                return named
            return await self._identity.caller(token)
        except Unauthenticated:
            if not local:
                self._failures.add(context.peer())
            raise

    async def _refused(self, error: Exception, method: MethodDescriptor, request: Any) -> None:
        """Record a refusal before it is answered: of a change, or of somebody who may not."""
        denied = isinstance(error, PermissionDenied | Unauthenticated)
        if isinstance(error, Refusal) and (denied or changes_state(method)):
            task_id, capability_id = subject(request)
            await self._audit.refused(error, task_id=task_id, capability_id=capability_id)


async def _abort(error: Exception, context: Any) -> None:
    # An abort of the handler itself passes: gRPC raises its own type for it.
    if type(error).__module__.startswith("grpc"):
        raise error
    status = status_of(error)
    await context.abort(status.code, status.message, status.trailers())
