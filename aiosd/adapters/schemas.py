"""The Schemas port on jsonschema: draft 2020-12, nothing fetched, nothing that takes for ever.

Schemas come from providers and instances from callers, so neither is trusted with the daemon's
time: schemas have a size, one validation has a number of steps, and patterns have their own rules.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from aiosd.adapters.patterns import UnsafePattern, compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from referencing import Resource
    from referencing._core import Resolver

MAX_SCHEMA_BYTES: Final = 64 * 1024
#: Keywords applied to values in one validation.
MAX_STEPS: Final = 50_000
CACHED: Final = 256
_LONGEST_PROBLEM: Final = 300


class _Exhausted(Exception):
    """One validation took too many steps."""


class _Steps:
    """What is left of the validation at hand; validations do not interleave."""

    def __init__(self) -> None:
        self.left = 0

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Exhausted


def _counted(steps: _Steps, keyword: Callable[..., Any]) -> Callable[..., Any]:
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        steps.take()
        yield from keyword(validator, value, instance, schema) or ()

    return run


def _pattern(_: Any, source: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    pattern = compiled(source)
    if len(instance) > pattern.longest:
        yield ValidationError(
            f"is longer than the {pattern.longest} characters that its pattern is applied to"
        )
    elif not pattern.search(instance):
        yield ValidationError(f"{_shown(instance)} does not match {_shown(source)}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], instance: Any, _: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for source, subschema in patterns.items():
        pattern = compiled(source)
        for name, member in instance.items():
            if len(name) > pattern.longest:
                yield ValidationError(f"the name {_shown(name)} is too long for a pattern")
            elif pattern.search(name):
                yield from validator.descend(member, subschema, path=name, schema_path=source)


def _unique_items(_: Any, wanted: bool, instance: Any, __: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list):
        seen = {json.dumps(_canonical(item), sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield ValidationError("has items that are not unique")


def _canonical(value: Any) -> Any:
    """Numbers that are equal in JSON look equal: 1 and 1.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: _canonical(member) for name, member in value.items()}
    return value


class JsonSchemas:
    """Checks schemas and instances; schemas that were seen lately are kept ready."""

    def __init__(self) -> None:
        self._steps = _Steps()
        keywords = {
            **Draft202012Validator.VALIDATORS,
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "uniqueItems": _unique_items,
        }
        self._validator = extend(  # type: ignore[no-untyped-call]
            Draft202012Validator,
            {name: _counted(self._steps, keyword) for name, keyword in keywords.items()},
        )
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def check(self, schema: str) -> str:
        """Empty if `schema` is a usable schema, else one sentence that says why not."""
        return self._prepared(schema)[1]

    def problem(self, schema: str, instance: object) -> str:
        """Empty if the instance satisfies the schema, else one sentence that names the place."""
        validator, wrong = self._prepared(schema)
        if validator is None:
            return wrong
        self._steps.left = MAX_STEPS
        try:
            error = best_match(validator.iter_errors(instance))
        except (_Exhausted, RecursionError):
            return "$ takes too many steps to validate"
        except Unresolvable as broken:
            return _unresolvable(broken)
        return "" if error is None else _sentence(error)

    def _prepared(self, schema: str) -> tuple[Any, str]:
        """The validator, or None and why there is none."""
        if schema in self._kept:
            self._kept.move_to_end(schema)
        else:
            self._kept[schema] = self._prepare(schema)
            if len(self._kept) > CACHED:
                self._kept.popitem(last=False)
        prepared: tuple[Any, str] = self._kept[schema]
        return prepared

    def _prepare(self, schema: str) -> tuple[Any, str]:
        if len(schema.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
            # The text itself is not kept as a key twice: the caller holds it anyway.
            return None, f"the schema is larger than {MAX_SCHEMA_BYTES} bytes"
        try:
            parsed = json.loads(schema)
            if not isinstance(parsed, dict | bool):
                return None, "the schema must be a JSON object or a boolean"
            Draft202012Validator.check_schema(parsed)
            _check_references(parsed)
            return self._validator(parsed, registry=Registry()), ""
        except json.JSONDecodeError as error:
            return None, f"the schema is not JSON: {error}"
        except RecursionError:
            return None, "the schema is nested too deeply"
        except SchemaError as error:
            return None, f"the schema is not valid: {_sentence(error)}"
        except Unresolvable as error:
            return None, _unresolvable(error)
        except UnsafePattern as error:
            return None, f"the schema has a pattern that {error}"


def _check_references(schema: Any) -> None:
    """Every reference must resolve within the schema, and every pattern be safe."""
    root: Resource[Any] = DRAFT202012.create_resource(schema)
    uri = root.id() or ""
    registry: Registry[Any] = Registry().with_resource(uri, root)
    waiting = [(registry.resolver(uri), root)]
    while waiting:
        resolver, resource = waiting.pop()
        contents = resource.contents
        if isinstance(contents, dict):
            for keyword in ("$ref", "$dynamicRef"):
                if isinstance(contents.get(keyword), str):
                    _look_up(resolver, contents[keyword])
            for source in (contents.get("pattern"), *contents.get("patternProperties", ())):
                if source is not None:
                    compiled(source)
        for inner in resource.subresources():
            waiting.append((resolver.in_subresource(inner), inner))


def _look_up(resolver: Resolver[Any], reference: str) -> None:
    try:
        resolver.lookup(reference)
    except Unresolvable as error:
        raise Unresolvable(ref=reference) from error  # it named the fragment only


def _unresolvable(error: Unresolvable) -> str:
    return f"the schema refers to {_shown(error.ref)}, which is not part of it"


def _sentence(error: ValidationError | SchemaError) -> str:
    """The place as a JSON path, then what is wrong there, on one line."""
    text = " ".join(f"{error.json_path}: {error.message}".split())
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[: _LONGEST_PROBLEM - 3]}..."


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
