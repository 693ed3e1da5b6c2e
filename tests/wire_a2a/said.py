"""What tests of this wire send, and how they read what comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.wire_a2a.raw import JSONRPC

if TYPE_CHECKING:
    from tests.wire_a2a.raw import Raw


def script(*steps: dict[str, Any], **message: Any) -> dict[str, Any]:
    """A message that runs a script of the lab."""
    return user([{"data": {"steps": list(steps)}}], **message)


def user(parts: list[dict[str, Any]], **message: Any) -> dict[str, Any]:
    """A message of the user."""
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": parts} | message


def text(words: str, **message: Any) -> dict[str, Any]:
    """A message of text."""
    return user([{"text": words}], **message)


def send(
    message: dict[str, Any], tenant: str = "lab.script", **configuration: Any
) -> dict[str, Any]:
    """The parameters of SendMessage; a snake-case name is written as this wire does."""
    params: dict[str, Any] = {"tenant": tenant, "message": message}
    if configuration:
        params["configuration"] = configuration
    return params


def kinds(items: list[dict[str, Any]]) -> list[str]:
    """What a stream consists of: `task`, `message`, `artifact` or the word of a status."""
    found = []
    for item in items:
        ((kind, value),) = item.items()
        if kind == "statusUpdate":
            found.append(value["status"]["state"].removeprefix("TASK_STATE_").lower())
        else:
            found.append(kind.removesuffix("Update"))
    return found


def chunks(texts: list[str]) -> list[dict[str, Any]]:
    """The steps of a script that deliver one artifact, a text a chunk."""
    return [
        {
            "chunk": {
                "artifact_id": "a",
                "append": number > 0,
                "last": number == len(texts) - 1,
                "parts": [{"type": "text", "text": words}],
            }
        }
        for number, words in enumerate(texts)
    ]


async def begun(raw: Raw, *steps: dict[str, Any], **message: Any) -> str:
    """The id of a task that runs a script."""
    params = send(script(*steps, **message), returnImmediately=True)
    return str((await raw.call(JSONRPC, "SendMessage", params))["task"]["id"])


async def until(raw: Raw, task_id: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            task: dict[str, Any] = await raw.call(JSONRPC, "GetTask", {"id": task_id})
            if task["status"]["state"] == f"TASK_STATE_{state}":
                return task
            await asyncio.sleep(0.02)


def parts_of(items: list[dict[str, Any]]) -> list[str]:
    """The texts of a snapshot's artifacts and of the chunks behind it, in order."""
    texts = []
    for item in items:
        if "task" in item:
            for artifact in item["task"].get("artifacts", []):
                texts += [part.get("text", "") for part in artifact["parts"]]
        elif "artifactUpdate" in item:
            texts += [part.get("text", "") for part in item["artifactUpdate"]["artifact"]["parts"]]
    return texts
