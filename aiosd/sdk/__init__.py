"""The public Python SDK: a client, and everything that a provider needs.

    async with connect() as client:
        task = await client.create("echo.say", {"text": "hello"}, wait_ms=10_000)

    provider = Provider("echo")

    @provider.capability("echo.say")
    async def say(task: TaskContext, args: Say) -> dict[str, str]:
        return {"said": args.text}

    await provider.run()

docs/sdk.md is the guide.
"""

from __future__ import annotations

from aiosd.sdk.artifact_writer import ArtifactWriter
from aiosd.sdk.client import Client, connect
from aiosd.sdk.context import TaskContext
from aiosd.sdk.errors import (
    AiosdError,
    Conflict,
    Exhausted,
    Internal,
    InvalidArgument,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OperationFailed,
    ProjectionBlocked,
    Refused,
    ReportRefused,
    TaskFailed,
    TaskRejected,
    TimedOut,
    Unavailable,
    Unimplemented,
)
from aiosd.sdk.execution import Offer
from aiosd.sdk.operations import OperationContext
from aiosd.sdk.parts import Data, Raw, Text, Url
from aiosd.sdk.provider import Provider
from aiosd.sdk.requests import is_interrupted, is_terminal
from aiosd.sdk.subscription import Subscription

__all__ = [
    "AiosdError",
    "ArtifactWriter",
    "Client",
    "Conflict",
    "Data",
    "Exhausted",
    "Internal",
    "InvalidArgument",
    "NotAuthenticated",
    "NotFound",
    "NotPermitted",
    "Offer",
    "OperationContext",
    "OperationFailed",
    "ProjectionBlocked",
    "Provider",
    "Raw",
    "Refused",
    "ReportRefused",
    "Subscription",
    "TaskContext",
    "TaskFailed",
    "TaskRejected",
    "Text",
    "TimedOut",
    "Unavailable",
    "Unimplemented",
    "Url",
    "connect",
    "is_interrupted",
    "is_terminal",
]
