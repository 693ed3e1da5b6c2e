"""The rules of the house that no stock linter knows.

import-linter holds the floors (pyproject.toml); here is what each floor may reach for outside
the project, and what files and names look like.
"""

from __future__ import annotations

import ast
import importlib.metadata
import io
import re
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiosd import entry
from tools import requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("aiosd", "gateway", "tests", "bench", "examples", "tools")
GENERATED = ROOT / "aiosd" / "api"

MAX_LINES = 400
BANNED_WORDS = frozenset({"util", "utils", "helper", "helpers", "manager", "common", "base"})

# Where generated messages may be seen. Everywhere else they have been decoded already.
WIRE_ROOMS = (
    "aiosd/adapters/rpc/",
    "aiosd/aios_wire/",
    "aiosd/a2a_wire/",
    "aiosd/sdk/",
    "aiosd/capabilities/",
    "aiosd/ctl/",
    "gateway/",
)
WIRE_TEST_ROOMS = ("tests/", "bench/", "examples/")

# Both lower floors run in a simulated world: time, chance and I/O come in through ports.
# fmt: off
IMPURE = frozenset({
    "concurrent", "http", "multiprocessing", "os", "pathlib", "random", "secrets", "select",
    "selectors", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib.request", "urllib.robotparser", "uuid",
})
# fmt: on
FLOORS = {
    "aiosd/domain": IMPURE | {"asyncio", "logging", "contextvars"},
    "aiosd/application": IMPURE,
}
FLOOR_PACKAGES = {
    "aiosd/domain": ("aiosd.domain",),
    "aiosd/application": ("aiosd.domain", "aiosd.application"),
}
IMPURE_CALLS = {
    "datetime.now": "the time comes in as an argument or from the Clock port",
    "datetime.utcnow": "the time comes in as an argument or from the Clock port",
    "datetime.today": "the time comes in as an argument or from the Clock port",
    "date.today": "the time comes in as an argument or from the Clock port",
    "asyncio.sleep": "waiting is the Clock port's",
    "asyncio.to_thread": "threads belong to adapters",
    "asyncio.run": "the event loop belongs to the composition root",
    "asyncio.get_event_loop": "the event loop belongs to the composition root",
    "asyncio.new_event_loop": "the event loop belongs to the composition root",
}
LONGEST_POLL_S = 0.05
# Here the loop is virtual: a sleep takes no time and moves the world.
VIRTUAL_TIME = ("tests/simulation/", "tests/application/")


@cache
def modules() -> tuple[Path, ...]:
    """Every Python file that somebody wrote."""
    return tuple(
        path
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.is_relative_to(GENERATED)
    )


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything a module imports, wherever it does."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case _:
                pass


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text, or "" for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted(value)}.{attribute}"
        case _:
            return ""


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    lengths = {place(path): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_no_file_has_a_name_that_says_nothing() -> None:
    vague = [place(path) for path in modules() if BANNED_WORDS & set(path.stem.split("_"))]
    assert vague == []


def test_no_class_has_a_name_that_says_nothing() -> None:
    vague = [
        f"{place(path)}:{node.lineno} {node.name}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        if BANNED_WORDS & {word.lower() for word in re.findall(r"[A-Z][a-z]*", node.name)}
        or node.name.lower().endswith(("_v2", "v2"))
    ]
    assert vague == []


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_below_the_adapters_imports_pure_standard_library_only(floor: str) -> None:
    banned = FLOORS[floor]
    reaching = [
        f"{place(path)}:{line} {name}"
        for path in modules()
        if path.is_relative_to(ROOT / floor)
        for line, name in imports(path)
        if not within(name, FLOOR_PACKAGES[floor])
        if within(name, tuple(banned)) or name.split(".")[0] not in sys.stdlib_module_names
    ]
    assert reaching == []


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_below_the_adapters_asks_ports_for_time_and_waiting(floor: str) -> None:
    calls = [
        f"{place(path)}:{node.lineno} {name}: {IMPURE_CALLS[name]}"
        for path in modules()
        if path.is_relative_to(ROOT / floor)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
        if (name := ".".join(dotted(node).split(".")[-2:])) in IMPURE_CALLS
    ]
    assert calls == []


def test_the_sdk_needs_the_base_distribution_only() -> None:
    own = ("aiosd.sdk", "aiosd.api", "aiosd.__version__", "aiosd.spelling")
    allowed = (*own, "grpc", "google.protobuf")
    reaching = [
        f"{place(path)}:{line} {name}"
        for path in modules()
        if path.is_relative_to(ROOT / "aiosd" / "sdk")
        for line, name in imports(path)
        if not within(name, allowed) and name.split(".")[0] not in sys.stdlib_module_names
        if not (path.name == "tracing.py" and within(name, ("opentelemetry",)))  # if it is there
    ]
    assert reaching == []


def test_generated_messages_are_seen_in_the_wire_rooms_only() -> None:
    leaks = [
        f"{place(path)}:{line} {name}"
        for path in modules()
        if not place(path).startswith(WIRE_ROOMS + WIRE_TEST_ROOMS)
        for line, name in imports(path)
        if within(name, ("aiosd.api", "google.protobuf"))
    ]
    assert leaks == []


def test_an_adapter_does_not_know_another_adapter() -> None:
    """Only the composition root knows two; plain modules of aiosd/adapters are shared ground."""
    adapters = ROOT / "aiosd" / "adapters"
    folders = {path.parent.name for path in adapters.glob("*/__init__.py")}
    meddling = [
        f"{place(path)}:{line} {name}"
        for path in modules()
        if path.is_relative_to(adapters) and path.parent != adapters
        for line, name in imports(path)
        if name.startswith("aiosd.adapters.")
        if name.split(".")[2] in folders - {path.relative_to(adapters).parts[0]}
    ]
    assert meddling == []


def test_nothing_is_left_to_do_in_a_comment() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    left = [
        f"{place(path)}:{token.start[0]} {token.string}"
        for path in modules()
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        if token.type == tokenize.COMMENT and pattern.search(token.string)
    ]
    assert left == []


def test_tests_wait_for_a_condition_and_never_for_an_amount_of_time() -> None:
    sleeps = [
        f"{place(path)}:{node.lineno} sleeps {argument.value} s"
        for path in modules()
        if path.is_relative_to(ROOT / "tests") and not place(path).startswith(VIRTUAL_TIME)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and dotted(node.func) in {"time.sleep", "asyncio.sleep"}
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
        if isinstance(argument.value, int | float) and argument.value > LONGEST_POLL_S
    ]
    assert sleeps == []


def test_every_console_script_checks_the_extra_that_it_needs() -> None:
    scripts = importlib.metadata.entry_points(group="console_scripts")
    ours = {script.name: script.value for script in scripts if script.value.startswith("aiosd.")}
    assert ours == {
        "aiosd": "aiosd.entry:aiosd",
        "aiosctl": "aiosd.entry:aiosctl",
        "aios-gateway": "aiosd.entry:aios_gateway",
    }


def test_a_missing_extra_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "installed", lambda name: name != "starlette")
    with pytest.raises(SystemExit) as stop:
        entry.aios_gateway()
    assert stop.value.code == entry.EXIT_MISSING_EXTRA
    assert capsys.readouterr().err == (
        "aios-gateway: needs the extra 'gateway', of which starlette is not installed. "
        "Install it with: pip install 'aiosd[gateway]'\n"
    )


def test_a_requirement_counts_when_a_marker_or_a_test_name_gives_it(tmp_path: Path) -> None:
    module = tmp_path / "test_example.py"
    module.write_text(
        '@pytest.mark.req("R001", "S-02")\n'
        "async def test_a_r003_b(): ...\n"
        "def test_r0045_and_err007(): ...\n"
        "def not_a_test_r006(): ...\n"
        'pytestmark = [pytest.mark.req("R005")]\n'
    )
    assert set(requirements.names_in(module)) == {"R001", "R003", "R005"}


def test_the_base_distribution_needs_grpc_and_protobuf_only() -> None:
    needed = [name for name in importlib.metadata.requires("aiosd") or [] if "extra ==" not in name]
    assert sorted(re.split(r"[^\w.-]", name, maxsplit=1)[0] for name in needed) == [
        "grpcio",
        "protobuf",
    ]
