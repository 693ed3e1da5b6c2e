"""A store in memory: for the simulation, for tests and for trying things out."""

from __future__ import annotations

from aiosd.adapters.memory.store import MemoryStore

__all__ = ["MemoryStore"]
