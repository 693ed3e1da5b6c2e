"""How parameters of methods are declared and checked.

A method's parameters are one pydantic model. The same model refuses what is wrong, with the field's
name, and describes itself in `rpc.discover`. Types are exact: no number is read from a string, no
boolean is a number, no fraction is an integer, and null is not a value. Members that nobody
declared are ignored, as the extension rule asks (EXT:22-24).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError

from aiosd.aios_wire.errors import INVALID_PARAMS, AiosError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import ErrorDetails, core_schema

ParamsT = TypeVar("ParamsT", bound="Params")

_MAX_REPORTED: Final = 10
_RFC3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})"
)


class Params(BaseModel):
    """Parameters of one method, or an object inside them."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        strict=True, frozen=True, extra="ignore", populate_by_name=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_no_value(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("null", "must not be null; leave it out instead")
        return value


class NoParams(Params):
    """For methods that take none."""


def _rfc3339(value: object) -> int:
    """Milliseconds since the epoch."""
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value.upper())
        except ValueError:
            pass
        else:
            return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    raise PydanticCustomError(
        "timestamp", "must be an RFC 3339 date and time such as 2026-01-05T10:00:00Z"
    )


Timestamp = Annotated[
    int,
    BeforeValidator(_rfc3339, json_schema_input_type=str),
    Field(json_schema_extra={"format": "date-time"}),
]
"""An RFC 3339 text, read as milliseconds since the epoch."""

Text = Annotated[str, Field(min_length=1, max_length=1024)]
"""A text that says something."""
Id = Annotated[str, Field(min_length=1, max_length=200)]
JsonObject = dict[str, Any]


def read(model: type[ParamsT], params: Mapping[str, Any]) -> ParamsT:
    """Check parameters. Raises AiosError -32602 that names the first wrong field (R003-R010)."""
    try:
        return model.model_validate(params)
    except ValidationError as refused:
        errors = refused.errors(include_url=False, include_input=False)
    problems = [problem_of(error) for error in errors[:_MAX_REPORTED]]
    first = problems[0]
    data: dict[str, Any] = {"field": first["field"]}
    if len(problems) > 1:
        data["problems"] = problems
    raise AiosError(INVALID_PARAMS, first["details"], data=data)


def invalid(field: str, problem: str) -> AiosError:
    """A -32602 for what a model cannot see: `problem` continues after the field's name."""
    return AiosError(INVALID_PARAMS, f"{field} {problem}", data={"field": field})


def problem_of(error: ErrorDetails) -> dict[str, str]:
    """The `field` that is wrong, and in `details` a sentence that says why."""
    field = _path(error["loc"]) or "params"
    return {"field": field, "details": f"{field} {_sentence(error)}"}


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith(("function-", "tagged-union")):
            path += f".{step}" if path else step
    return path


def _sentence(error: ErrorDetails) -> str:
    kind = error["type"]
    bounds: Mapping[str, Any] = error.get("ctx", {})
    if kind in _SENTENCES:
        return _SENTENCES[kind].format_map(bounds)
    return error["msg"].replace("Input should", "must").replace("Value error, ", "")


_SENTENCES: Final[Mapping[str, str]] = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be an array",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "literal_error": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be greater than {gt}",
}


class _Schema(GenerateJsonSchema):
    """A member that may be left out is not a member that may be null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        if described.get("default", ...) is None:
            del described["default"]
        return described


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """JSON Schema (2020-12) of a model, as `rpc.discover` shows it.

    Nested models stand under `$defs`; references point to where an OpenRPC document keeps them.
    """
    return model.model_json_schema(
        by_alias=True, schema_generator=_Schema, ref_template="#/components/schemas/{model}"
    )
