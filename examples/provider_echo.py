"""A provider in one page: echoes a text, asks before it shouts, can be paused and stopped.

aiosd serve &
python examples/provider_echo.py &
aiosctl run echo.say text=hello
"""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass, field

from aiosd.sdk import Provider, TaskContext

provider = Provider("echo", credits=20)


@dataclass
class Say:
    text: str = field(metadata={"description": "What is echoed."})
    times: int = 1
    shout: bool = False


@provider.capability("echo.say", name="Echo", level="public", pausable=True, retry_safe=True)
async def say(task: TaskContext, args: Say) -> dict[str, list[str]]:
    """Says what it is told, as often as it is told."""
    text = args.text
    if args.shout:
        answer = await task.ask("Really shout?", options=["yes", "no"])
        text = text.upper() if answer.get("choice") == "yes" else text

    # An earlier attempt that was lost left word how far it had come.
    said: list[str] = task.checkpoint_state or []
    async with task.open_artifact("echo.txt", mime_type="text/plain") as artifact:
        for line in said:
            await artifact.write(f"{line}\n")
        for step in range(len(said), args.times):
            await task.checkpoint()  # stands still here while the task is paused
            said.append(text)
            await artifact.write(f"{text}\n")
            await task.save(said)
            await task.progress(100 * (step + 1) / args.times, current_step=step + 1)
    return {"said": said}


async def main() -> None:
    loop = asyncio.get_running_loop()
    run = asyncio.create_task(provider.run())
    loop.add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(provider.drain(5_000)))
    attached = asyncio.create_task(provider.attached())
    await asyncio.wait({run, attached}, return_when=asyncio.FIRST_COMPLETED)
    if attached.done():
        print(json.dumps({"ready": True, "name": provider.name}), flush=True)
    attached.cancel()
    await run


if __name__ == "__main__":
    asyncio.run(main())
