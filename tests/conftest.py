"""What every test gets: checked requirement ids, its room's marker, and one shared service."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.stack import Stack

HERE = Path(__file__).parent

# R: numbered requirements. S, I, H: security, invariants, histories. X, Y, Z: resolutions.
REQUIREMENT = re.compile(r"R(?!000)(0\d\d|1\d\d|200)|S-\d\d|[IHXYZ]\d\d")

# A test of one of these folders carries the folder's marker without saying so.
ROOM_MARKERS = {
    "e2e": "e2e",
    "wire_aios": "e2e",
    "simulation": "sim",
    "crash": "crash",
    "fuzz": "fuzz",
}


def pytest_configure() -> None:
    """Let the processes that tests start hear Ctrl-C and Ctrl-\\, as from a terminal.

    A runner that a shell put into the background ignores both, and hands that on.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse unknown requirement ids, so that a typing slip cannot count as proof."""
    for item in items:
        for marker in item.iter_markers("req"):
            check_requirements(item, marker)
        if item.path.is_relative_to(HERE):
            room = item.path.relative_to(HERE).parts[0]
            if room in ROOM_MARKERS:
                item.add_marker(ROOM_MARKERS[room])


def check_requirements(item: pytest.Item, marker: pytest.Mark) -> None:
    """Raise UsageError unless the marker names at least one id, and only well-formed ones."""
    if not marker.args or marker.kwargs:
        raise pytest.UsageError(f'{item.nodeid}: write @pytest.mark.req("R042"), ids only')
    for name in marker.args:
        if not isinstance(name, str) or not REQUIREMENT.fullmatch(name):
            raise pytest.UsageError(
                f"{item.nodeid}: {name!r} is no requirement id; "
                "write R001..R200, S-01, I01, H01, X01, Y01 or Z10"
            )


@pytest.fixture(scope="session")
def shared_stack() -> Iterator[Stack]:
    """A service that may post to loopback, for every test that leaves it as it found it."""
    from tests.support.stack import Stack

    # The path of a socket must be short, so not a directory of pytest's.
    with (
        TemporaryDirectory(prefix="aiosd-") as directory,
        Stack(
            Path(directory),
            max_queue_size=1000,
            webhook_allow=["127.0.0.0/8"],
            webhook_timeout_ms=5_000,
            http_auth_failures_per_minute=100_000,
        ) as stack,
    ):
        yield stack
