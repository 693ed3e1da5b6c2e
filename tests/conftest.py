"""What every test gets: checked requirement ids, and the marker of the room it lives in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
