"""Real processes, killed for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.programs import Programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def programs(tmp_path: Path) -> AsyncIterator[Programs]:
    """Programs with short leases, so that losses are seen soon."""
    started = Programs(
        tmp_path,
        heartbeat_interval_ms=200,
        lease_ms=1500,
        reattach_window_ms=8000,
        max_queue_size=100_000,
        max_tasks_per_tool=10,
        permissions__auto_grant=["*"],
    )
    yield started
    await started.aclose()
