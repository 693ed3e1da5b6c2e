"""GET /.well-known/aios-adapter.json: what this server is, where it listens, what it can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosd import __version__
from gateway.aios import capabilities, sessions, watching

if TYPE_CHECKING:
    from gateway.aios.method import Call

PATH = "/.well-known/aios-adapter.json"


async def card(call: Call, rpc_path: str) -> dict[str, Any]:
    """The discovery card. Raises AiosError when the daemon does not answer."""
    listed = await capabilities.list_(capabilities.ListParams(), call)
    return {
        "id": "aiosd",
        "name": "aiosd",
        "description": "A durable task service: long-running agent tasks, watched and steered.",
        "version": __version__,
        "protocol_version": sessions.PROTOCOL_VERSIONS[0],
        "supported_versions": list(sessions.PROTOCOL_VERSIONS),
        "transports": ["http", "sse"],
        "endpoints": {
            "rpc": rpc_path,
            "events": watching.STREAM_PATH,
            "health": "/health",
            "metrics": "/metrics",
        },
        "authentication": {"type": "bearer"},
        "limits": {
            "max_message_size": call.limits.max_message_bytes,
            "max_batch_size": call.limits.max_batch_size,
        },
        "capabilities": listed["capabilities"],
    }
