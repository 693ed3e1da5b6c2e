"""The OpenRPC document of `rpc.discover`, made from the table of methods and its models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiosd import __version__
from aiosd.aios_wire import errors
from gateway.aios.params import json_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.aios.method import Method

Json = dict[str, Any]

OPENRPC: Final = "1.3.2"


def document(methods: Iterable[Method[Any]]) -> Json:
    """Describe methods, their parameters by name, and every error of the wire."""
    schemas: Json = {}
    return {
        "openrpc": OPENRPC,
        "info": {"title": "AIOS task service", "version": __version__},
        "methods": [_method(method, schemas) for method in methods],
        "components": {
            "schemas": schemas,
            "errors": {entry.error_id: _error(entry) for entry in errors.ERRORS.values()},
        },
    }


def _method(method: Method[Any], schemas: Json) -> Json:
    schema = json_schema(method.params)
    schemas |= schema.get("$defs", {})
    required = schema.get("required", [])
    return {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": [
            {"name": name, "required": name in required, "schema": member}
            for name, member in schema.get("properties", {}).items()
        ],
        "result": {"name": "result", "schema": {"type": "object"}},
    }


def _error(entry: errors.ErrorEntry) -> Json:
    return {"code": entry.code, "message": entry.message, "data": {"error_id": entry.error_id}}
