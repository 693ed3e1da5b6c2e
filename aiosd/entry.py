"""The console scripts: each checks its extra, then hands over to the real entry point.

Standard library only, because this module must work in an environment where the extra that a
command needs was never installed.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib import metadata
from typing import NoReturn

DISTRIBUTION = "aiosd"
EXIT_MISSING_EXTRA = 2


def aiosd() -> NoReturn:
    """Run `aiosd`: the daemon, the built-in provider, or all parts together."""
    run("aiosd", "aiosd.cli", extra="daemon")


def aiosctl() -> NoReturn:
    """Run `aiosctl`, the command-line client."""
    run("aiosctl", "aiosd.ctl", extra="cli")


def aios_gateway() -> NoReturn:
    """Run `aios-gateway`, the HTTP side of the service."""
    run("aios-gateway", "gateway.__main__", extra="gateway")


def run(command: str, module: str, *, extra: str) -> NoReturn:
    """Call `main()` of `module` and exit with what it returns.

    Exits 2 with one line on stderr that says what to install when a package of `extra` is missing.
    """
    missing = missing_packages(extra)
    if missing:
        sys.stderr.write(
            f"{command}: needs the extra {extra!r}, of which {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed. "
            f"Install it with: pip install '{DISTRIBUTION}[{extra}]'\n"
        )
        raise SystemExit(EXIT_MISSING_EXTRA)
    raise SystemExit(importlib.import_module(module).main())


def missing_packages(extra: str) -> list[str]:
    """The distributions that `extra` asks for and that are not here, sorted; no version check.

    Read from our own metadata, so that this list cannot drift from pyproject.toml.
    """
    marker = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""")
    requirements = filter(marker.search, metadata.requires(DISTRIBUTION) or [])
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements}
    return sorted(name for name in names if not installed(name))


def installed(name: str) -> bool:
    """Whether a distribution of this name can be found."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
