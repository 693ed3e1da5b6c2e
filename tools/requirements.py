"""Print the requirements R001..R200 that no test names.

A test names a requirement with the marker `req` or with `r042` in its own name. Read from the
source, not from a collection run, so that it works before anything is installed.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parent.parent / "tests"
LAST = 200
IN_A_NAME = re.compile(r"(?<![a-z0-9])r(\d{3})(?![0-9])")
IN_A_MARKER = re.compile(r"R\d{3}")


def main() -> int:
    """Print the open requirements to stdout, a count to stderr; always succeeds."""
    named = {name for path in sorted(TESTS.rglob("*.py")) for name in names_in(path)}
    wanted = [f"R{number:03}" for number in range(1, LAST + 1)]
    missing = [name for name in wanted if name not in named]
    for name in missing:
        print(name)
    print(f"{LAST - len(missing)} of {LAST} requirements are named by a test", file=sys.stderr)
    return 0


def names_in(path: Path) -> Iterator[str]:
    """The requirements that the tests of one file name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        match node:
            case ast.Call(func=ast.Attribute(attr="req"), args=arguments):
                for argument in arguments:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield from IN_A_MARKER.findall(argument.value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name.startswith("test_"):
                    yield from (f"R{number}" for number in IN_A_NAME.findall(name))
            case _:
                pass


if __name__ == "__main__":
    sys.exit(main())
