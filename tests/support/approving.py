"""The person who allows what programs ask for, in tests about something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.api.v1 import interruption_pb2
from aiosd.sdk import connect

if TYPE_CHECKING:
    from pathlib import Path


async def approve(address: str, state_dir: Path, task_id: str) -> None:
    """Wait until a task asks, and allow it."""
    token = (state_dir / "approver-token").read_text().strip()
    async with connect(address, token) as person:
        asking = await person.wait(task_id, 30_000)
        assert asking.interruption.kind == interruption_pb2.NEED_KIND_HUMAN_APPROVAL, asking
        await person.authenticate(
            task_id,
            interruption_pb2.AuthResponse(type=interruption_pb2.AUTH_TYPE_APPROVAL, approve=True),
        )
