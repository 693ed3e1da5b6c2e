"""The manual knows every command."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from aiosd.ctl.app import app

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_manual(name: str) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "aiosctl.md").read_text("utf-8")
    usage = manual.partition("```")[2].partition("```")[0]
    assert name in usage.replace("|", " ").split()
