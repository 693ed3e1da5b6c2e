"""The task service of an AI-native operating system."""

from __future__ import annotations

__version__ = "0.1.0"
