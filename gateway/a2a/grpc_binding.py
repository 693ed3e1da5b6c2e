"""The gRPC binding: the SDK's servicer on a listener of its own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import grpc
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.grpc_handler import GrpcHandler, GrpcServerCallContextBuilder
from a2a.types import a2a_pb2_grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from gateway.a2a import words
from gateway.a2a.call import REQUEST_STATE, Request
from gateway.a2a.card import Cards
from gateway.a2a.errors import ADDED, UnauthenticatedError
from gateway.a2a.handler import Handler
from gateway.admission import Admission
from gateway.context import trace_parent_of
from gateway.daemon_channel import Caller
from gateway.request_head import bearer_of

if TYPE_CHECKING:
    from a2a.utils.errors import A2AError

    from gateway.context import GatewayContext

_DOMAIN: Final = "a2a-protocol.org"
_DETAILS: Final = "grpc-status-details-bin"
_ROOM: Final = 64 * 1024
_MAX_STREAMS: Final = 256
_OPTIONS: Final = (
    ("grpc.max_concurrent_streams", _MAX_STREAMS),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.so_reuseport", 0),
)


class ContextBuilder(GrpcServerCallContextBuilder):
    """Reads a call's metadata; a call without a bearer token is refused here."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def build(self, context: aio.ServicerContext[Any, Any]) -> ServerCallContext:
        """The SDK's context of a gRPC call. Raises UnauthenticatedError."""
        parameters: dict[str, str] = {}
        for key, value in context.invocation_metadata() or ():
            text = value if isinstance(value, str) else value.decode("latin-1")
            parameters[key] = f"{parameters[key]},{text}" if key in parameters else text
        bearer = bearer_of(parameters.pop("authorization", ""))
        if bearer is None:
            raise UnauthenticatedError
        caller = Caller(
            bearer=bearer,
            trace_parent=trace_parent_of(parameters.get("traceparent", "")),
            request_id=secrets.token_hex(16),
        )
        request = Request(caller, parameters, self._context.http)
        return ServerCallContext(
            state={REQUEST_STATE: request}, requested_extensions=set(request.extensions)
        )


class Servicer(GrpcHandler):
    """The SDK's servicer, which also writes the errors that we add and what is activated."""

    def _build_call_context(self, context: Any, request: Any) -> ServerCallContext:
        made = super()._build_call_context(context, request)
        if made.requested_extensions:
            # Written with the first message, or with the error.
            activated = ", ".join(sorted(made.requested_extensions))
            context.set_trailing_metadata(((words.EXTENSIONS_PARAMETER, activated),))
        return made

    async def abort_context(self, error: A2AError, context: Any) -> None:
        """End a call with the status of an error."""
        added = ADDED.get(type(error))
        if added is None:
            await super().abort_context(error, context)
            return
        mapping, code = added
        info = any_pb2.Any()
        info.Pack(error_details_pb2.ErrorInfo(reason=mapping.reason, domain=_DOMAIN))
        status = status_pb2.Status(code=code.value[0], message=error.message, details=[info])
        trailers: list[tuple[str, str | bytes]] = [(_DETAILS, status.SerializeToString())]
        if code is grpc.StatusCode.UNAUTHENTICATED:
            trailers.append(("www-authenticate", 'Bearer realm="aios"'))
        context.set_trailing_metadata(tuple(trailers))
        await context.abort(code, error.message)


class A2aGrpcServer:
    """A2A over gRPC. Start it inside the running event loop, stop it once."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        admission = Admission(context.daemon)
        handler = Handler(context, admission, Cards(context))
        largest = context.settings.max_message_bytes + _ROOM
        self._server = aio.server(options=(*_OPTIONS, ("grpc.max_receive_message_length", largest)))
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(  # type: ignore[no-untyped-call]
            Servicer(handler, ContextBuilder(context)), self._server
        )

    async def start(self) -> str:
        """Listen; the address as `host:port`. Raises OSError if it is taken."""
        address = self._context.settings.a2a_grpc
        host = f"[{address.host}]" if ":" in address.host else address.host
        try:
            port = self._server.add_insecure_port(f"{host}:{address.port}")
        except RuntimeError:
            port = 0
        if not port:
            raise OSError(
                f"a2a_grpc: {address} cannot be listened on; "
                "choose another with --a2a-grpc HOST:PORT, where port 0 takes any"
            )
        await self._server.start()
        return f"{host}:{port}"

    async def stop(self, grace_seconds: float) -> None:
        """Take no new call; end those that are open, streams too, after the grace."""
        await self._server.stop(grace_seconds)
