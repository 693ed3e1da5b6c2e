"""The OpenAPI 3.1 document, made from the routes and the models that serve and check them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from aiosd import __version__
from gateway.aios.params import json_schema
from gateway.openapi import models
from gateway.openapi.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from gateway.openapi.routes import Route

Json = dict[str, Any]

_ALWAYS: Final = (401, 429, 500, 503, 504)
_PHRASES: Final = {
    400: "The request is wrong; error.param names the field.",
    401: "No valid bearer token.",
    403: "Not allowed.",
    404: "There is no such thing, or it is another's.",
    409: "It does not fit the state that there is.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    429: "Too much at once; Retry-After says when to come back.",
    500: "The service failed.",
    503: "The service is not there now; Retry-After says when to come back.",
    504: "The wait is over; metadata.task_id, where there is one, names the task, which goes on.",
}
_HEADERS: Final = {
    "Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 128},
    "Last-Event-ID": {"type": "string", "pattern": "^[0-9]{1,15}$"},
}
_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@cache
def document() -> Json:
    """The document. The same object each time; nobody may change it."""
    schemas: Json = {}
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "aiosd tasks",
            "version": __version__,
            "description": "Durable agent tasks, their messages, and runtime operations.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: Json) -> Json:
    parameters: list[Any] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }
        for name in _PATH_PARAMETER.findall(route.path)
    ]
    parameters += route.query
    parameters += [
        {"name": name, "in": "header", "required": False, "schema": _HEADERS[name]}
        for name in route.headers
    ]
    described: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {str(route.status): _success(route, schemas)},
    }
    if route.body is not None:
        described["requestBody"] = {
            "required": any(field.is_required() for field in route.body.model_fields.values()),
            "content": {"application/json": {"schema": _reference(route.body, schemas)}},
        }
        route_errors: Iterable[int] = {*route.errors, 413, 415}
    else:
        route_errors = route.errors
    failure = {"application/json": {"schema": _reference(models.Failure, schemas)}}
    for status in sorted({*route_errors, *_ALWAYS}):
        described["responses"][str(status)] = {"description": _PHRASES[status], "content": failure}
    return described


def _success(route: Route, schemas: Json) -> Json:
    if route.answer is None:
        return {
            "description": "Server-sent events.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    envelope = {
        "type": "object",
        "required": ["success", "data"],
        "properties": {"success": {"const": True}, "data": _reference(route.answer, schemas)},
    }
    return {
        "description": (route.answer.__doc__ or "").partition("\n")[0],
        "content": {"application/json": {"schema": envelope}},
    }


def _reference(model: type[BaseModel], schemas: Json) -> Json:
    if model.__name__ not in schemas:
        described = json_schema(model)
        schemas |= described.pop("$defs", {})
        schemas[model.__name__] = described
    return {"$ref": f"#/components/schemas/{model.__name__}"}
