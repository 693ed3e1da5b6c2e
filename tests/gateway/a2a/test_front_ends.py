"""Every error that an operation can raise, written by each of the three front ends (a2a.md 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2, a2a_pb2_grpc
from a2a.utils import errors as sdk
from google.rpc import error_details_pb2, status_pb2
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from gateway.a2a import errors, jsonrpc, rest
from gateway.a2a.grpc_binding import ContextBuilder, Servicer
from tests.support.http import http_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from a2a.utils.errors import A2AError
    from starlette.types import Receive, Scope, Send

TABLE = [
    (sdk.TaskNotFoundError, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    (sdk.TaskNotCancelableError, -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    (
        sdk.PushNotificationNotSupportedError,
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    ),
    (sdk.UnsupportedOperationError, -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (
        sdk.ContentTypeNotSupportedError,
        -32005,
        400,
        "INVALID_ARGUMENT",
        "CONTENT_TYPE_NOT_SUPPORTED",
    ),
    (sdk.InvalidAgentResponseError, -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    (
        sdk.ExtendedAgentCardNotConfiguredError,
        -32007,
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
    (
        sdk.ExtensionSupportRequiredError,
        -32008,
        400,
        "FAILED_PRECONDITION",
        "EXTENSION_SUPPORT_REQUIRED",
    ),
    (sdk.VersionNotSupportedError, -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    (sdk.InvalidParamsError, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    (sdk.InvalidRequestError, -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    (sdk.MethodNotFoundError, -32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
    (sdk.InternalError, -32603, 500, "INTERNAL", "INTERNAL_ERROR"),
    (errors.ForbiddenError, -32603, 403, "PERMISSION_DENIED", "PERMISSION_DENIED"),
    (errors.BusyError, -32603, 429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
    (errors.UnavailableError, -32603, 503, "UNAVAILABLE", "UNAVAILABLE"),
]
HEADERS = {"a2a-version": "1.0", "content-type": "application/json"}


class Raising(RequestHandler):
    """Raises one error from every operation."""

    def __init__(self, error: A2AError) -> None:
        self._error = error

    async def _fail(self, params: Any, context: Any) -> Any:
        raise self._error

    async def _fail_stream(self, params: Any, context: Any) -> AsyncIterator[Any]:
        raise self._error
        yield

    on_get_task = on_list_tasks = on_cancel_task = on_message_send = _fail
    on_create_task_push_notification_config = _fail
    on_get_task_push_notification_config = _fail
    on_list_task_push_notification_configs = _fail
    on_delete_task_push_notification_config = _fail
    on_get_extended_agent_card = _fail
    on_message_send_stream = on_subscribe_to_task = _fail_stream  # type: ignore[assignment]


class Open:
    """Lets every token in."""

    async def check(self, caller: Any) -> None:
        return


class WithState:
    """What the guards leave in the scope."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {}).update(bearer="token", request_id="r")
        await self._app(scope, receive, send)


def client(error: A2AError) -> httpx.AsyncClient:
    handler: Any = Raising(error)
    admission: Any = Open()
    app = Starlette(
        routes=[
            Route("/a2a", jsonrpc.Endpoint(handler, admission, 1000).post, methods=["POST"]),
            Mount("/a2a", routes=rest.Rest(handler, admission, 1000).routes()),
        ]
    )
    transport = httpx.ASGITransport(app=WithState(app))
    return http_client(transport=transport, base_url="http://here", headers=HEADERS)


@pytest.mark.parametrize(("kind", "code", "status", "grpc_code", "reason"), TABLE)
@pytest.mark.parametrize("method", ["GetTask", "SubscribeToTask"])
async def test_an_error_over_json_rpc(
    kind: type[A2AError], code: int, status: int, grpc_code: str, reason: str, method: str
) -> None:
    async with client(kind("why", data={"key": "value"})) as http:
        body = {"jsonrpc": "2.0", "id": 5, "method": method, "params": {"id": "t"}}
        answer = await http.post("/a2a", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "jsonrpc": "2.0",
        "id": 5,
        "error": {
            "code": code,
            "message": "why",
            "data": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": reason,
                    "domain": "a2a-protocol.org",
                    "metadata": {"key": "value"},
                }
            ],
        },
    }


@pytest.mark.parametrize(("kind", "code", "status", "grpc_code", "reason"), TABLE)
@pytest.mark.parametrize("path", ["/tasks/t", "/tasks/t:subscribe"])
async def test_an_error_over_rest(
    kind: type[A2AError], code: int, status: int, grpc_code: str, reason: str, path: str
) -> None:
    async with client(kind("why")) as http:
        answer = await http.get(f"/a2a{path}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert (error["code"], error["status"], error["message"]) == (status, grpc_code, "why")
    (info,) = error["details"]
    assert (info["reason"], info["domain"]) == (reason, "a2a-protocol.org")


@pytest.mark.parametrize(("kind", "code", "status", "grpc_code", "reason"), TABLE)
async def test_an_error_over_grpc(
    kind: type[A2AError], code: int, status: int, grpc_code: str, reason: str
) -> None:
    server = grpc.aio.server()
    context: Any = type("Context", (), {"http": "http://here"})()
    servicer = Servicer(Raising(kind("why")), ContextBuilder(context))
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(  # type: ignore[no-untyped-call]
        servicer, server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    metadata = (("authorization", "Bearer token"), ("a2a-version", "1.0"))
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.aio.AioRpcError) as unary:
                await stub.GetTask(a2a_pb2.GetTaskRequest(id="t"), metadata=metadata)
            with pytest.raises(grpc.aio.AioRpcError) as stream:
                request = a2a_pb2.SubscribeToTaskRequest(id="t")
                async for _ in stub.SubscribeToTask(request, metadata=metadata):
                    pass
            with pytest.raises(grpc.aio.AioRpcError) as stranger:
                await stub.GetTask(a2a_pb2.GetTaskRequest(id="t"))
    finally:
        await server.stop(None)
    for caught in (unary.value, stream.value):
        assert caught.code().name == grpc_code
        assert caught.details() == "why"
        assert reason_of(caught) == reason
    assert stranger.value.code() is grpc.StatusCode.UNAUTHENTICATED


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """The reason in the trailer of a failed call."""
    trailers = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "a2a-protocol.org"
    return str(info.reason)
