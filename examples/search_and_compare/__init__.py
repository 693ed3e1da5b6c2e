"""Searches shops and compares what they ask for a product: the AIOS document's own example."""

from __future__ import annotations
