"""Where settings come from: flags beat the environment, which beats the file, which beats defaults.

Every problem is found in one go and named with the place it came from; nothing is ignored.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import pwd
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, get_origin

from pydantic import BaseModel, ValidationError

from aiosd.settings.model import Settings

PREFIX: Final = "AIOSD_"
SYSTEM_CONFIG: Final = Path("/etc/aiosd/config.toml")

CONFIG_VARIABLE: Final = "AIOSD_CONFIG"
CLIENT_VARIABLES: Final = frozenset(
    {
        CONFIG_VARIABLE,
        "AIOSD_ADDRESS",
        "AIOSD_FAILPOINTS",
        "AIOSD_TOKEN",
        "AIOSD_TOKEN_FILE",
    }
)
"""Variables with our prefix that are no settings, and are left to whoever reads them."""


class SettingsError(ValueError):
    """The settings cannot be used. `problems` has one sentence each, naming setting and source."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class _Given(NamedTuple):
    value: object
    source: str


_Layer = dict[str, _Given]
"""Values by dotted name, such as `permissions.max_level`."""


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    config_path: Path | None = None,
    *,
    system_config: Path = SYSTEM_CONFIG,
) -> Settings:
    """Merge and validate all sources.

    `flags` has values by setting name (`max_queue_size`, `max-queue-size` or
    `permissions.max_level`); None means not given; text is read as in the environment.
    `config_path` is what `--config` named. Raises SettingsError with every problem found.
    """
    problems: list[str] = []
    config_file = find_config_file(environ, config_path, system_config=system_config)
    given: _Layer = {}
    if config_file is not None:
        given |= _from_file(config_file, problems)
    given |= _from_environment(environ, problems)
    given |= _from_flags(flags, problems)
    given = _with_default_paths(given, environ)
    settings = _validated(given, problems)
    if problems or settings is None:
        raise SettingsError(problems)
    return settings


def find_config_file(
    environ: Mapping[str, str],
    config_path: Path | None = None,
    *,
    system_config: Path = SYSTEM_CONFIG,
) -> Path | None:
    """The file to read: the one asked for, else the user's, else the system's, else none."""
    if config_path is not None:
        return config_path
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    users = _base_directory(environ, "XDG_CONFIG_HOME", ".config") / "aiosd" / "config.toml"
    return next((path for path in (users, system_config) if path.exists()), None)


@functools.cache
def setting_types() -> Mapping[str, type | None]:
    """Each dotted setting name and its plain type; None where it is a union or a choice."""
    return dict(_types(Settings, ""))


def _types(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type | None]]:
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _types(annotation, f"{prefix}{name}.")
        else:
            plain = get_origin(annotation) or annotation
            yield prefix + name, plain if isinstance(plain, type) else None


def environment_name(name: str) -> str:
    """The variable of a setting: `permissions.max_level` is AIOSD_PERMISSIONS__MAX_LEVEL."""
    return PREFIX + name.replace(".", "__").upper()


def flag_name(name: str) -> str:
    """The flag of a setting: `permissions.max_level` is --permissions.max-level."""
    return "--" + name.replace("_", "-")


def _from_file(path: Path, problems: list[str]) -> _Layer:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"cannot read the configuration file {path}: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"the configuration file {path} is not valid TOML: {error}")
        return {}
    layer: _Layer = {}
    for name, value in _flattened(table):
        if name in setting_types():
            layer[name] = _Given(value, f"{name} in {path}")
        else:
            hint = _suggestion(name, setting_types())
            problems.append(f"unknown setting {name!r} in {path}{hint}")
    return layer


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> _Layer:
    names = {environment_name(name): name for name in setting_types()}
    layer: _Layer = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in CLIENT_VARIABLES:
            continue
        if variable in names:
            name = names[variable]
            _read_text(name, environ[variable], f"{name} ({variable})", layer, problems)
        else:
            hint = _suggestion(variable, names)
            problems.append(f"unknown setting {variable!r} in the environment{hint}")
    return layer


def _from_flags(flags: Mapping[str, object], problems: list[str]) -> _Layer:
    layer: _Layer = {}
    for given_name, value in _flattened(flags):
        name = given_name.replace("-", "_")
        flag = flag_name(name)
        if name not in setting_types():
            problems.append(f"unknown setting {flag}{_suggestion(name, setting_types())}")
        elif isinstance(value, str):
            _read_text(name, value, f"{name} ({flag})", layer, problems)
        elif value is not None:
            layer[name] = _Given(value, f"{name} ({flag})")
    return layer


def _flattened(table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Dotted names and values; only the tables that are ours are opened."""
    tables = {name.rpartition(".")[0] for name in setting_types()} - {""}
    for name, value in table.items():
        if name in tables and isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", member) for inner, member in value.items())
        else:
            yield name, value


def _read_text(name: str, text: str, source: str, layer: _Layer, problems: list[str]) -> None:
    """Read what a person wrote: digits for a number; a JSON array or a,b,c for a list."""
    kind = setting_types()[name]
    value: object = text
    try:
        if kind is int:
            value = int(text.strip())
        elif kind is tuple and text.lstrip().startswith("["):
            value = json.loads(text)
        elif kind is tuple:
            value = [item.strip() for item in text.split(",") if item.strip()]
    except ValueError:
        wanted = "a whole number" if kind is int else 'a JSON array such as ["a","b"], or a,b'
        problems.append(f"{source} must be {wanted}, got {text!r}")
        return
    layer[name] = _Given(value, source)


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _with_default_paths(given: _Layer, environ: Mapping[str, str]) -> _Layer:
    """Fill in the two settings whose default depends on where we run."""
    state = _base_directory(environ, "XDG_STATE_HOME", ".local/state") / "aiosd"
    filled = {"state_dir": _Given(state, "state_dir")} | given
    state_dir = filled["state_dir"].value
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        socket = Path(runtime, "aiosd", "aiosd.sock")
    elif isinstance(state_dir, str | Path):
        socket = Path(state_dir, "run", "aiosd.sock")
    else:  # state_dir is refused anyway; its own error is the one to read
        socket = state / "run" / "aiosd.sock"
    return {"socket": _Given(socket, "socket")} | filled


def _base_directory(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """An XDG base directory. Relative values are invalid and count as unset, as XDG says."""
    value = environ.get(variable, "")
    if value.startswith("/"):
        return Path(value)
    home = environ.get("HOME", "")
    return Path(home if home.startswith("/") else pwd.getpwuid(os.getuid()).pw_dir, below_home)


def _validated(given: _Layer, problems: list[str]) -> Settings | None:
    values: dict[str, object] = {}
    for name, (value, _) in given.items():
        table, _, key = name.rpartition(".")
        if table:
            inner = values.setdefault(table, {})
            if isinstance(inner, dict):
                inner[key] = value
        else:
            values[key] = value
    try:
        return Settings.model_validate(values)
    except ValidationError as refused:
        for error in refused.errors():
            name = ".".join(part for part in error["loc"] if isinstance(part, str))
            cause = error.get("ctx", {}).get("error")
            if cause is None:
                wanted = error["msg"].replace("Input should be", "must be", 1)
                cause = f"{wanted}, got {error['input']!r}"
            problems.append(f"{given[name].source} {cause}" if name in given else str(cause))
        return None
