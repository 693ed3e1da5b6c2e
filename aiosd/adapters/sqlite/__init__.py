"""The durable store of one machine."""

from __future__ import annotations

from aiosd.adapters.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
