"""Types to JSON Schema (draft 2020-12), and JSON values back to typed arguments.

Understood: dataclasses, TypedDicts, Literal, Enum, unions, lists, tuples, dicts with string keys,
str, int, float, bool, None, Any; and every class that speaks for itself the way pydantic models do
(`model_json_schema`, `model_validate`), without pydantic being imported here.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    dict: {"type": "object"},
    list: {"type": "array"},
}


def describes_object(hint: Any) -> bool:
    """True for a type that arguments can be read into: a dataclass, a TypedDict, a model."""
    return dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or _is_model(hint)


def json_schema(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type. Raises TypeError for a type that has none."""
    if _is_model(hint):
        return {"$schema": DIALECT, **hint.model_json_schema()}
    definitions: dict[str, dict[str, Any]] = {}
    schema = _schema(hint, definitions)
    if "$ref" in schema and schema["$ref"].startswith("#/$defs/"):
        name = schema["$ref"].removeprefix("#/$defs/")
        text = repr(definitions)
        if text.count(f"#/$defs/{name}'") == 0:  # not recursive: no detour for the reader
            schema = definitions.pop(name)
    return {"$schema": DIALECT, **schema} | ({"$defs": definitions} if definitions else {})


def read(hint: Any, value: Any, field: str = "arguments") -> Any:
    """A JSON value as the type. Raises ValueError, which names the member that does not fit."""
    if _is_model(hint):
        try:
            return hint.model_validate(value)
        except ValueError as problem:
            raise ValueError(f"{field}: {problem}") from None
    if dataclasses.is_dataclass(hint):
        members = _members(hint, value, field)
        return typing.cast("Any", hint)(**members)
    if typing.is_typeddict(hint):
        return _members(hint, value, field)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return read(args[0], value, field)
    if origin in (typing.Union, types.UnionType):
        return _read_union(args, value, field)
    if origin is typing.Literal:
        # `True == 1`: an answer of another type is another answer.
        if any(value == one and type(value) is type(one) for one in args):
            return value
        raise ValueError(f"{field}: must be one of {', '.join(map(repr, args))}")
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            raise ValueError(f"{field}: {value!r} is no {hint.__name__}") from None
    if hint in (Any, object):
        return value
    return _read_container(hint, origin or hint, args, value, field)


def _read_container(hint: Any, origin: Any, args: tuple[Any, ...], value: Any, field: str) -> Any:
    kind = {None: type(None), tuple: list, float: (int, float)}.get(origin, origin)
    wanted = kind if isinstance(kind, tuple) else (kind,)
    # bool is an int to Python and none to JSON.
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise ValueError(f"{field}: must be {_schema(hint, {}).get('type', hint)}")
    if origin is float:
        return float(value)
    if origin is list and args:
        return [read(args[0], one, f"{field}[{at}]") for at, one in enumerate(value)]
    if origin is tuple and args:
        hints = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(hints) != len(value):
            raise ValueError(f"{field}: must have {len(hints)} items")
        pairs = zip(hints, value, strict=True)
        return tuple(read(one, item, f"{field}[{at}]") for at, (one, item) in enumerate(pairs))
    if origin is dict and args:
        return {name: read(args[1], one, f"{field}.{name}") for name, one in value.items()}
    return value


def _read_union(args: tuple[Any, ...], value: Any, field: str) -> Any:
    problems = []
    for one in args:
        try:
            return read(one, value, field)
        except ValueError as problem:
            problems.append(str(problem))
    if type(None) in args and len(problems) == 2:
        raise ValueError(problems[0 if args[1] in (None, type(None)) else 1])
    raise ValueError(f"{field}: fits none of the types allowed")


def _members(hint: Any, value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field}: must be object")
    hints, required = _object_fields(hint)
    unknown = sorted(set(value) - set(hints))
    if unknown:
        raise ValueError(f"{field}.{unknown[0]}: unknown")
    missing = sorted(required - set(value))
    if missing:
        raise ValueError(f"{field}.{missing[0]}: required")
    return {name: read(hints[name], one, f"{field}.{name}") for name, one in value.items()}


def _object_fields(hint: Any) -> tuple[dict[str, Any], set[str]]:
    """Types by name, and the names that must be there."""
    hints = typing.get_type_hints(hint)
    if typing.is_typeddict(hint):
        return hints, set(hint.__required_keys__)
    fields = [one for one in dataclasses.fields(hint) if one.init]
    required = {
        one.name
        for one in fields
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    }
    return {one.name: hints[one.name] for one in fields}, required


def _schema(hint: Any, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if _is_model(hint):
        return typing.cast("dict[str, Any]", hint.model_json_schema())
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        return _object_schema(hint, definitions)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _schema(args[0], definitions)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(one, definitions) for one in args]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [one.value for one in hint]}
    if origin is list:
        return {"type": "array", "items": _schema(args[0], definitions)}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": _schema(args[0], definitions)}
    if origin is tuple:
        items = [_schema(one, definitions) for one in args]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin is dict and args[0] is str:
        return {"type": "object", "additionalProperties": _schema(args[1], definitions)}
    try:
        return dict(_PLAIN[hint])
    except (KeyError, TypeError):
        raise TypeError(f"{hint!r} has no JSON Schema") from None


def _object_schema(hint: Any, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    name = hint.__name__
    if name not in definitions:
        definitions[name] = {}  # a type may refer to itself
        hints, required = _object_fields(hint)
        described = dataclasses.fields(hint) if dataclasses.is_dataclass(hint) else ()
        metadata = {one.name: one.metadata.get("description") for one in described}
        properties = {}
        for member, one in hints.items():
            properties[member] = _schema(one, definitions)
            if metadata.get(member):
                properties[member]["description"] = metadata[member]
        definitions[name] = {
            "type": "object",
            "properties": properties,
            "required": sorted(required),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "model_json_schema")
