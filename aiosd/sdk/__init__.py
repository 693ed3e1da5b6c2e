"""The public Python SDK: a client, and everything that a provider needs.

async with connect() as client:
    task = await client.create("echo.say", {"text": "hello"}, wait_ms=10_000)

provider = Provider("echo")

@provider.capability("echo.say")
async def say(task: TaskContext, args: Say) -> dict[str, str]:
    return {"said": args.text}

await provider.run()
"""

from __future__ import annotations

from aiosd.sdk.client import Client, connect
from aiosd.sdk.errors import AiosdError

__all__ = ["AiosdError", "Client", "connect"]
