"""Settings as something to read: the table of all of them, TOML text, and an environment."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from aiosd.settings.load import CONFIG_VARIABLE, environment_name, flag_name
from aiosd.settings.model import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class SettingRow(NamedTuple):
    """One setting, for documents and `aiosd config default`."""

    name: str
    """Dotted: `permissions.max_level` is the key `max_level` of the table `[permissions]`."""
    type: str
    """What it takes, with its bounds."""
    default: str
    """TOML text, a description where it depends on the environment, or `unset`."""
    meaning: str
    environment: str
    flag: str


def describe() -> tuple[SettingRow, ...]:
    """Every setting, in the order of the model: those outside of tables first."""
    rows = sorted(_rows(Settings, ""), key=lambda row: "." in row.name)
    return tuple(rows)


def to_toml(settings: Settings | None = None) -> str:
    """A whole configuration file with comments: the values in force, or the defaults.

    Defaults are commented out, so that a file made from them follows later defaults.
    """
    lines: list[str] = []
    table = ""
    for row in describe():
        row_table, _, key = row.name.rpartition(".")
        if row_table != table:
            table = row_table
            lines += [f"[{table}]", ""]
        lines += textwrap.wrap(
            f"{row.meaning} Takes {row.type}.", 92, initial_indent="# ", subsequent_indent="# "
        )
        value = None if settings is None else _lookup(settings, row.name)
        if settings is None or value is None:
            lines.append(f"# {key} = {row.default if row.default != 'unset' else json.dumps('')}")
        else:
            lines.append(f"{key} = {_toml(value)}")
        lines.append("")
    return "\n".join(lines)


def to_environ(settings: Settings) -> dict[str, str]:
    """AIOSD_* variables under which `load_settings` gives the same settings again.

    For child processes: the configuration file is set to an empty one, so that a later change of
    the real one cannot make a restarted child differ from its siblings.
    """
    variables = {CONFIG_VARIABLE: "/dev/null"}
    for row in describe():
        value = _lookup(settings, row.name)
        variables[row.environment] = (
            ""
            if value is None
            else json.dumps(value)
            if isinstance(value, tuple | bool)
            else str(value)
        )
    return variables


def _rows(model: type[BaseModel], prefix: str) -> Iterator[SettingRow]:
    for key, field in model.model_fields.items():
        name = prefix + key
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{name}.")
        else:
            yield SettingRow(
                name=name,
                type=_type(field),
                default=_default(field),
                meaning=field.description or "",
                environment=environment_name(name),
                flag=flag_name(name),
            )


def _type(field: FieldInfo) -> str:
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return " or ".join(json.dumps(choice) for choice in get_args(annotation))
    if annotation is bool:
        return "true or false"
    if annotation is int:
        low = _bound(field.metadata, "ge")
        high = _bound(field.metadata, "le")
        return f"a whole number from {low} to {high}"
    if get_origin(annotation) is tuple:
        return "a list of strings"
    names = {"Path": "a path", "HostPort": "HOST:PORT"}
    return names.get(getattr(annotation, "__name__", ""), "a string")


def _bound(metadata: Iterable[object], side: str) -> object:
    return next(getattr(bound, side) for bound in metadata if hasattr(bound, side))


def _default(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, Mapping):
        return str(field.json_schema_extra["default_text"])
    if field.default is None or field.default is PydanticUndefined:
        return "unset"
    return _toml(field.default)


def _toml(value: Any) -> str:
    """A TOML value. JSON's strings, integers and arrays of strings are TOML's as well."""
    if isinstance(value, int | tuple):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False)


def _lookup(settings: Settings, name: str) -> object:
    value: object = settings
    for key in name.split("."):
        value = getattr(value, key)
    return value
