"""Create a task, follow it, answer its question, fetch what it made. Needs provider_echo.py.

python examples/client_create_and_watch.py hello 3
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiosd.api.v1 import task_pb2
from aiosd.sdk import Refused, connect


async def main(text: str, times: int) -> None:
    async with connect() as client:
        task = await client.create("echo.say", {"text": text, "times": times, "shout": True})
        print("created", task.task_id)

        # Goes on by itself when the connection breaks or the daemon restarts.
        async for event in client.subscribe(task.task_id):
            match event.WhichOneof("payload"):
                case "status_changed":
                    print(event.sequence, task_pb2.TaskState.Name(event.status_changed.state))
                case "progressed":
                    print(event.sequence, f"{event.progressed.percent:.0f} %")
                case "input_required":
                    print(event.sequence, event.input_required.prompt)
                    try:
                        await client.submit_input(task.task_id, {"choice": "yes"})
                    except Refused as refusal:  # somebody else was faster
                        print("not answered:", refusal.reason)
                case other:
                    print(event.sequence, other)

        task = await client.get(task.task_id)
        print("result", json.loads(task.result) if task.result else task.failure.message)
        for summary in await client.artifacts(task.task_id):
            artifact = await client.artifact(summary.artifact_id, task.task_id)
            print(artifact.name, repr("".join(part.text for part in artifact.parts)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
