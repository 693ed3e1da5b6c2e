"""A2A without a client library: any payload on any binding, and what came back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from a2a.types import a2a_pb2, a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2

from tests.support.http import http_client
from tests.support.spelling import assert_task_spelling

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    import httpx

    from tests.support.stack import Stack

JSONRPC, REST, GRPC = "JSONRPC", "HTTP+JSON", "GRPC"
BINDINGS = (JSONRPC, REST, GRPC)
STREAMING = frozenset({"SendStreamingMessage", "SubscribeToTask"})

_REQUESTS = {
    "SendMessage": a2a_pb2.SendMessageRequest,
    "SendStreamingMessage": a2a_pb2.SendMessageRequest,
    "GetTask": a2a_pb2.GetTaskRequest,
    "ListTasks": a2a_pb2.ListTasksRequest,
    "CancelTask": a2a_pb2.CancelTaskRequest,
    "SubscribeToTask": a2a_pb2.SubscribeToTaskRequest,
    "CreateTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": a2a_pb2.GetTaskPushNotificationConfigRequest,
    "ListTaskPushNotificationConfigs": a2a_pb2.ListTaskPushNotificationConfigsRequest,
    "DeleteTaskPushNotificationConfig": a2a_pb2.DeleteTaskPushNotificationConfigRequest,
    "GetExtendedAgentCard": a2a_pb2.GetExtendedAgentCardRequest,
}
OPERATIONS = tuple(_REQUESTS)


@dataclass
class Problem(Exception):
    """An error of the wire, read from whatever form the binding gives it."""

    binding: str
    code: int | str
    """JSON-RPC code, HTTP status or name of the gRPC status."""
    reason: str
    message: str
    fields: tuple[str, ...] = ()
    raw: Any = field(default=None, compare=False)


class Raw:
    """One caller on all bindings of one service. Close it."""

    def __init__(self, stack: Stack, token: str | None = None, version: str | None = "1.0") -> None:
        self.token = stack.token if token is None else token
        self.version = version
        self.url = f"{stack.http}/a2a"
        self.http = http_client(timeout=60)
        self.channel = grpc.aio.insecure_channel(stack.ready["a2a_grpc"])
        self.stub = a2a_pb2_grpc.A2AServiceStub(self.channel)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self.http.aclose()
        await self.channel.close()

    def headers(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        headers = {} if not self.token else {"authorization": f"Bearer {self.token}"}
        if self.version is not None:
            headers["a2a-version"] = self.version
        return headers | dict(extra or {})

    async def call(
        self,
        binding: str,
        operation: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The result of an operation as JSON; a list of items for a stream. Raises Problem."""
        result = await self._call(binding, operation, params, headers)
        assert_task_spelling(result)
        return result

    async def _call(
        self,
        binding: str,
        operation: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> Any:
        if operation in STREAMING:
            return [item async for item in self.stream(binding, operation, params, headers)]
        params = dict(params or {})
        if binding == JSONRPC:
            return _result(await self.post(rpc(operation, params), headers))
        if binding == REST:
            response = await self.http.send(self._rest(operation, params, headers))
            return _body(response)
        try:
            answer = await getattr(self.stub, operation)(
                _message(operation, params), metadata=tuple(self.headers(headers).items())
            )
        except grpc.aio.AioRpcError as error:
            raise _grpc_problem(error) from None
        return MessageToDict(answer)

    async def stream(
        self,
        binding: str,
        operation: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The items of a stream as they come. Raises Problem."""
        params = dict(params or {})
        if binding == GRPC:
            call = getattr(self.stub, operation)(
                _message(operation, params), metadata=tuple(self.headers(headers).items())
            )
            try:
                async for item in call:
                    yield MessageToDict(item)
            except grpc.aio.AioRpcError as error:
                raise _grpc_problem(error) from None
            finally:
                call.cancel()
            return
        if binding == JSONRPC:
            request = self._rpc_request(rpc(operation, params), headers)
        else:
            request = self._rest(operation, params, headers)
        response = await self.http.send(request, stream=True)
        try:
            if not response.headers["content-type"].startswith("text/event-stream"):
                await response.aread()
                _result(response) if binding == JSONRPC else _body(response)
                raise AssertionError(f"no stream and no error: {response.text}")
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    item = json.loads(line.removeprefix("data:"))
                    if binding == JSONRPC:
                        item = _unwrap(item)
                    yield item
        finally:
            await response.aclose()

    async def post(
        self, body: Any, headers: Mapping[str, str] | None = None, path: str = ""
    ) -> httpx.Response:
        """POST anything to the JSON-RPC endpoint."""
        return await self.http.send(self._rpc_request(body, headers, path))

    def _rpc_request(
        self, body: Any, headers: Mapping[str, str] | None = None, path: str = ""
    ) -> httpx.Request:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = self.headers({"content-type": "application/json", **(headers or {})})
        return self.http.build_request(
            "POST", self.url + path, content=content, headers=all_headers
        )

    def _rest(
        self, operation: str, params: dict[str, Any], headers: Mapping[str, str] | None
    ) -> httpx.Request:
        tenant = params.pop("tenant", "")
        prefix = f"/{tenant}" if tenant else ""
        method, path, where = _ROUTES[operation]
        for name in ("taskId", "id"):
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", params.pop(name, "") or "missing")
        content, query = None, None
        all_headers = self.headers(headers)
        if where == "body":
            content = json.dumps(params)
            all_headers.setdefault("content-type", "application/json")
        else:
            query = {name: _query(value) for name, value in params.items()}
        return self.http.build_request(
            method, self.url + prefix + path, content=content, params=query, headers=all_headers
        )


class Reader:
    """A subscription that is read in the background: wait until it `began`, then for the `rest`."""

    def __init__(self, raw: Raw, binding: str, task_id: str) -> None:
        self.items: list[Any] = []
        self._changed = asyncio.Event()
        self._stream = raw.stream(binding, "SubscribeToTask", {"id": task_id})
        self._reading = asyncio.create_task(self._read())

    async def began(self, count: int = 1) -> Reader:
        """Wait for the first items."""
        async with asyncio.timeout(20):
            while len(self.items) < count and not self._reading.done():
                self._changed.clear()
                await self._changed.wait()
        return self

    async def rest(self, within_s: float = 30) -> list[Any]:
        """Every item, once the stream has ended."""
        async with asyncio.timeout(within_s):
            await self._reading
        return self.items

    async def _read(self) -> None:
        try:
            async for item in self._stream:
                assert_task_spelling(item)
                self.items.append(item)
                self._changed.set()
        finally:
            self._changed.set()


_PUSH = "/tasks/{taskId}/pushNotificationConfigs"
_ROUTES = {
    "SendMessage": ("POST", "/message:send", "body"),
    "SendStreamingMessage": ("POST", "/message:stream", "body"),
    "GetTask": ("GET", "/tasks/{id}", "query"),
    "ListTasks": ("GET", "/tasks", "query"),
    "CancelTask": ("POST", "/tasks/{id}:cancel", "query"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe", "query"),
    "CreateTaskPushNotificationConfig": ("POST", _PUSH, "body"),
    "GetTaskPushNotificationConfig": ("GET", _PUSH + "/{id}", "query"),
    "ListTaskPushNotificationConfigs": ("GET", _PUSH, "query"),
    "DeleteTaskPushNotificationConfig": ("DELETE", _PUSH + "/{id}", "query"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard", "query"),
}


def rpc(method: str, params: Any, request_id: Any = 7) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def _query(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _message(operation: str, params: Mapping[str, Any]) -> Any:
    return ParseDict(dict(params), _REQUESTS[operation]())


def _result(response: httpx.Response) -> Any:
    return _unwrap(response.json())


def _unwrap(answer: Any) -> Any:
    if "error" not in answer:
        return answer["result"]
    error = answer["error"]
    assert set(error) <= {"code", "message", "data"}, error
    details = _read(error["data"])
    raise Problem(
        JSONRPC, error["code"], _reason(details), error["message"], _fields(details), answer
    )


def _body(response: httpx.Response) -> Any:
    answer = response.json()
    if response.is_success:
        return answer
    error = answer["error"]
    assert error["code"] == response.status_code, answer
    assert response.headers["content-type"] == "application/json"
    details = _read(error["details"])
    raise Problem(REST, error["code"], _reason(details), error["message"], _fields(details), answer)


def _read(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The details of an error; each must be the message that it says it is."""
    known = {"ErrorInfo": error_details_pb2.ErrorInfo, "BadRequest": error_details_pb2.BadRequest}
    for detail in details:
        content = {name: value for name, value in detail.items() if name != "@type"}
        ParseDict(content, known[detail["@type"].removeprefix("type.googleapis.com/google.rpc.")]())
        # The text of an exception is nobody's business.
        assert "parseError" not in str(detail), detail
    return details


def _reason(details: list[dict[str, Any]]) -> str:
    for detail in details:
        assert "@type" in detail
        if detail["@type"].endswith("google.rpc.ErrorInfo"):
            assert detail["domain"] == "a2a-protocol.org"
            return str(detail["reason"])
    return ""


def _fields(details: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(
        violation["field"] for detail in details for violation in detail.get("fieldViolations", [])
    )


def _grpc_problem(error: grpc.aio.AioRpcError) -> Problem:
    reason, fields = "", []
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            assert status.code == error.code().value[0]
            assert status.message == error.details()
            for detail in status.details:
                info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
                if detail.Unpack(info):
                    reason = info.reason
                elif detail.Unpack(bad):
                    fields += [violation.field for violation in bad.field_violations]
    return Problem(GRPC, error.code().name, reason, error.details() or "", tuple(fields), error)
