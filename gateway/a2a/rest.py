"""The REST binding: the SDK's dispatcher behind our reading of each request (a2a.md 5.1-5.4)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlencode

from a2a.server.routes.rest_dispatcher import RestDispatcher
from a2a.types import a2a_pb2
from a2a.utils import proto_utils
from a2a.utils.error_handlers import build_rest_error_payload, rest_error_handler
from a2a.utils.errors import (
    A2AError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
)
from google.protobuf.json_format import MessageToDict
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from gateway import strict_json
from gateway.a2a import extensions, http, proto_json, shapes, words
from gateway.a2a.errors import invalid
from gateway.guard_policy import A2A_MEDIA_TYPES

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtoMessage
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from gateway.a2a.handler import Handler
    from gateway.admission import Admission
    from gateway.refusals import Refusal

Endpoint: TypeAlias = Callable[[HttpRequest], Awaitable["Response"]]

_SNAKE: Final = re.compile(r"_([a-z])")
_BOOLEANS: Final = frozenset({"includeArtifacts"})
_SEND: Final = "/message:send"
_STREAM: Final = "/message:stream"
_PUSH: Final = "/tasks/{id}/pushNotificationConfigs"
_BODIES: Final[Mapping[tuple[str, str], type[ProtoMessage]]] = MappingProxyType(
    {
        ("POST", _SEND): a2a_pb2.SendMessageRequest,
        ("POST", _STREAM): a2a_pb2.SendMessageRequest,
        ("POST", _PUSH): a2a_pb2.TaskPushNotificationConfig,
    }
)
"""The bodies that are messages of the contract, by method and path."""


class Dispatcher(RestDispatcher):
    """The SDK's dispatcher; a list is written without the members that were not asked for."""

    @rest_error_handler
    async def list_tasks(self, request: HttpRequest) -> Response:
        """GET /tasks."""
        params = a2a_pb2.ListTasksRequest()
        proto_utils.parse_params(request.query_params, params)
        context = self._build_call_context(request)
        response = await self.request_handler.on_list_tasks(params, context)
        return JSONResponse(list_response(response, params), media_type=http.A2A_JSON)


def list_response(
    response: a2a_pb2.ListTasksResponse, params: a2a_pb2.ListTasksRequest
) -> dict[str, Any]:
    """A page with its four members, and artifacts of a task exactly when they were asked for."""
    tasks = []
    for task in response.tasks:
        shown = MessageToDict(task)
        if params.include_artifacts:
            shown.setdefault("artifacts", [])
        tasks.append(shown)
    return {
        "tasks": tasks,
        "nextPageToken": response.next_page_token,
        "pageSize": response.page_size,
        "totalSize": response.total_size,
    }


class Rest:
    """The routes, with and without a tenant in the path."""

    def __init__(self, handler: Handler, admission: Admission, max_body_bytes: int) -> None:
        self._handler = handler
        self._admission = admission
        self._max_body_bytes = max_body_bytes
        self._builder = http.ContextBuilder()
        self._dispatcher = Dispatcher(handler, self._builder)

    def routes(self) -> list[BaseRoute]:
        """Below the base path of this wire."""
        sdk = self._dispatcher
        table: tuple[tuple[str, str, Endpoint], ...] = (
            ("POST", _SEND, sdk.on_message_send),
            ("POST", _STREAM, sdk.on_message_send_stream),
            ("POST", "/tasks/{id}:cancel", sdk.on_cancel_task),
            ("GET", "/tasks/{id}:subscribe", sdk.on_subscribe_to_task),
            ("POST", "/tasks/{id}:subscribe", sdk.on_subscribe_to_task),
            ("POST", "/tasks/{id}:pause", self._extension(extensions.PAUSE)),
            ("POST", "/tasks/{id}:resume", self._extension(extensions.RESUME)),
            ("GET", "/tasks/{id}", sdk.on_get_task),
            ("GET", _PUSH + "/{push_id}", sdk.get_push_notification),
            ("DELETE", _PUSH + "/{push_id}", sdk.delete_push_notification),
            ("POST", _PUSH, sdk.set_push_notification),
            ("GET", _PUSH, sdk.list_push_notifications),
            ("GET", "/tasks", sdk.list_tasks),
            ("GET", "/extendedAgentCard", sdk.handle_authenticated_agent_card),
        )
        plain: list[BaseRoute] = [
            Route(path, self._around(endpoint, _BODIES.get((method, path))), methods=[method])
            for method, path, endpoint in table
        ]
        return [*plain, Mount("/{tenant}", routes=plain)]

    def _around(
        self, endpoint: Endpoint, body: type[ProtoMessage] | None
    ) -> Callable[[HttpRequest], Awaitable[ASGIApp]]:
        async def answer(request: HttpRequest) -> ASGIApp:
            refusal = await http.refusal_of(request, self._admission)
            if refusal is not None:
                return refusal
            try:
                http.request_of(request).check_version()
                request = await self._checked(request, body)
                response = await endpoint(request)
            except A2AError as error:
                response = error_response(error)
            _negotiate(request, response)
            return http.finish(request, response, self._admission)

        return answer

    async def _checked(
        self, request: HttpRequest, expected: type[ProtoMessage] | None
    ) -> HttpRequest:
        """The request with its query in one spelling and its body known to be JSON of 1.0."""
        http.check_media_type(request, A2A_MEDIA_TYPES)
        scope = {**request.scope, "query_string": _query(request).encode()}
        checked = HttpRequest(scope, request.receive)
        body = await request.body()
        if not body and expected is None:
            return http.with_body(checked, b"")
        try:
            value = http.parse_json(body, self._max_body_bytes)
        except JSONParseError as error:
            raise InvalidRequestError(error.message) from None
        if not isinstance(value, dict):
            raise InvalidRequestError("the body must be an object")
        if expected is not None:
            if expected is a2a_pb2.SendMessageRequest:
                shapes.check_message_request(value)
            proto_json.check(value, expected)
        return http.with_body(checked, body)

    def _extension(self, method: str) -> Endpoint:
        async def endpoint(request: HttpRequest) -> Response:
            if words.PAUSE_RESUME not in http.request_of(request).extensions:
                raise MethodNotFoundError
            body = await request.body()
            params = {**(strict_json.loads(body) if body else {}), **request.path_params}  # type: ignore[dict-item]
            context = self._builder.build(request)
            context.tenant = request.path_params.get("tenant", "")
            call = await self._handler.open(None, context)
            task = await extensions.control(call, method, params)
            return JSONResponse(MessageToDict(task), media_type=http.A2A_JSON)

        return endpoint


def error_response(error: A2AError) -> JSONResponse:
    """An error as this binding writes it."""
    payload = build_rest_error_payload(error)
    return JSONResponse(payload, status_code=payload["error"]["code"])


def render_refusal(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """What the guards refuse, in the shape of this wire's errors."""
    statuses = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    return {
        "error": {
            "code": refusal.status,
            "status": statuses.get(refusal.status, "FAILED_PRECONDITION"),
            "message": refusal.message,
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": refusal.reason.upper(),
                    "domain": "a2a-protocol.org",
                    "metadata": {"requestId": request_id},
                }
            ],
        }
    }


def _query(request: HttpRequest) -> str:
    """The query with both spellings of a name read as one, its values checked."""
    members: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        name = _SNAKE.sub(lambda match: match[1].upper(), name)
        members.setdefault(name, []).append(value)
    for name, values in members.items():
        if name in _BOOLEANS and values[-1].lower() not in ("true", "false"):
            raise invalid(name, "must be true or false")
        if name == "status":
            members[name] = [shapes.with_known_status({"status": values[-1]})["status"]]
    # What the other calls read from a query are members of the same name and type.
    proto_json.check(
        {name: values[-1] for name, values in members.items() if name not in _BOOLEANS},
        a2a_pb2.ListTasksRequest,
    )
    return urlencode(members, doseq=True)


def _negotiate(request: HttpRequest, response: Response) -> None:
    """Answer with the media type that the client speaks; plain JSON for one that names none."""
    if response.headers.get("content-type") != http.A2A_JSON:
        return
    accept = request.headers.get("accept", "")
    sent = request.headers.get("content-type", "")
    if http.A2A_JSON not in accept and (http.JSON in accept or http.A2A_JSON not in sent):
        response.headers["content-type"] = http.JSON
