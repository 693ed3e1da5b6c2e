"""Crash loops."""

from __future__ import annotations

from tests.e2e.conftest import programs

__all__ = ["programs"]
