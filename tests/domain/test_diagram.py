"""docs/task-lifecycle.md shows the table of the code; UPDATE_GOLDEN=1 writes it again."""

from __future__ import annotations

import os
from pathlib import Path

from aiosd.domain.state import diagram

PAGE = Path(__file__).parents[2] / "docs" / "task-lifecycle.md"
BEGIN = "<!-- begin generated: aiosd.domain.state.diagram -->\n```mermaid\n"
END = "```\n<!-- end generated -->\n"


def test_the_life_cycle_page_shows_the_table_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    shown, after = rest.split(END)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(before + BEGIN + diagram() + END + after, encoding="utf-8")
        return
    assert shown == diagram(), "run UPDATE_GOLDEN=1 make test"
