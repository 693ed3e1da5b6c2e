"""The JSON-RPC binding: the SDK's dispatcher behind our reading of the envelope (a2a.md 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from a2a.server.jsonrpc_models import JSONParseError as JsonRpcParseError
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.errors import (
    A2AError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
)
from google.protobuf.json_format import MessageToDict
from starlette.responses import JSONResponse

from gateway import strict_json
from gateway.a2a import extensions, http, shapes, words
from gateway.a2a.errors import ForbiddenError, details
from gateway.a2a.rest import list_response

if TYPE_CHECKING:
    from a2a.server.context import ServerCallContext
    from a2a.types import a2a_pb2
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from gateway.a2a.handler import Handler
    from gateway.admission import Admission

RequestId = str | int | None

_JSON_ONLY: Final = frozenset({http.JSON})
_SUBSCRIBE: Final = "SubscribeToTask"


class Dispatcher(JsonRpcDispatcher):
    """The SDK's dispatcher; a list is written without the members that were not asked for."""

    async def _handle_list_tasks(
        self, request_obj: a2a_pb2.ListTasksRequest, context: ServerCallContext
    ) -> dict[str, Any]:
        response = await self.request_handler.on_list_tasks(request_obj, context)
        return list_response(response, request_obj)


class Endpoint:
    """POST of one JSON-RPC request; batches are not part of A2A."""

    def __init__(self, handler: Handler, admission: Admission, max_body_bytes: int) -> None:
        self._handler = handler
        self._admission = admission
        self._max_body_bytes = max_body_bytes
        self._builder = http.ContextBuilder()
        self._dispatcher = Dispatcher(handler, self._builder)

    async def post(self, request: Request) -> ASGIApp:
        """Answer a request; errors are HTTP 200 but for those of authentication."""
        refusal = await http.refusal_of(request, self._admission)
        if refusal is not None:
            return refusal
        request_id: RequestId = None
        try:
            http.check_media_type(request, _JSON_ONLY)
            body = http.parse_json(await request.body(), self._max_body_bytes)
            request_id = _request_id(body)
            http.request_of(request).check_version()
            response = await self._answer(request, body, request_id)
        except A2AError as error:
            status = 403 if isinstance(error, ForbiddenError) else 200
            response = JSONResponse(_error(request_id, error), status_code=status)
        return http.finish(request, response, self._admission)

    async def _answer(self, request: Request, body: Any, request_id: RequestId) -> Response:
        if isinstance(body, dict):
            method = body.get("method")
            if not isinstance(method, str):
                raise InvalidRequestError("method must be a string")
            params = body.get("params", {})
            if "tenant" in request.path_params and isinstance(params, dict):
                params = {**params, "tenant": request.path_params["tenant"]}
            if body.get("jsonrpc") == "2.0" and method in extensions.METHODS:
                return await self._extension(request, method, params, request_id)
            model = self._dispatcher.METHOD_TO_MODEL.get(method)
            if model is not None:
                params = shapes.checked(method, params, model)
            if method == _SUBSCRIBE and isinstance(params.get("after"), int):
                parameters = dict(http.request_of(request).parameters)
                parameters.setdefault(words.AFTER_PARAMETER, str(params["after"]))
                http.request_of(request).parameters = parameters
            body = {**body, "params": params}
        plain = http.with_body(request, strict_json.dumps(body).encode())
        return await self._dispatcher.handle_requests(plain)

    async def _extension(
        self, request: Request, method: str, params: Any, request_id: RequestId
    ) -> Response:
        if words.PAUSE_RESUME not in http.request_of(request).extensions:
            raise MethodNotFoundError
        context = self._builder.build(request)
        params = shapes.checked(method, params, None)
        context.tenant = str(params.get("tenant", ""))
        task = await extensions.control(await self._handler.open(None, context), method, params)
        return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": MessageToDict(task)})


def _error(request_id: RequestId, error: A2AError) -> dict[str, Any]:
    # The SDK has two errors of this name and no code for the one of the two that it raises itself.
    if isinstance(error, JSONParseError):
        parse_error = JsonRpcParseError(message=error.message, data=details(error))
        return build_error_response(None, parse_error)
    return build_error_response(request_id, error)


def _request_id(body: Any) -> RequestId:
    """The id to answer under, as JSON-RPC has it; null when it is none."""
    given = body.get("id") if isinstance(body, dict) else None
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None
