"""Holds every answer that a test gets against the document of the wire."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from gateway.openapi.document import document

_PARAMETER = re.compile(r"\\\{\w+\\\}")


def check_answer(method: str, path: str, status: int, body: Any) -> None:
    """AssertionError unless the document promises this answer; other paths promise nothing."""
    for pattern, item in _paths():
        described = item.get(method.lower())
        if described is None or not pattern.fullmatch(path.partition("?")[0]):
            continue
        assert str(status) in described["responses"], f"{method} {path} does not promise {status}"
        for problem in _validator(described["operationId"], str(status)).iter_errors(body):
            raise AssertionError(f"{method} {path} {status}: {problem.json_path} {problem.message}")


@cache
def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    return [
        (re.compile(_PARAMETER.sub("[^/]+", re.escape(path))), item)
        for path, item in document()["paths"].items()
    ]


@cache
def _validator(operation_id: str, status: str) -> Draft202012Validator:
    (described,) = (
        one for _, item in _paths() for one in item.values() if one["operationId"] == operation_id
    )
    schema = described["responses"][status]["content"]["application/json"]["schema"]
    return Draft202012Validator(schema | {"components": document()["components"]})
