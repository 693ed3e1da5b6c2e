"""Content near its bounds reaches everybody (E14, I42)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from aiosd.api.v1 import task_pb2
from aiosd.sdk import AiosdError, connect

if TYPE_CHECKING:
    from tests.support.programs import Programs

LARGE = "ä" * 450_000  # 0.9 MB


@pytest.mark.req("I42", "S-21")
async def test_many_large_tasks_are_offered_listed_and_followed(programs: Programs) -> None:
    await programs.daemon()
    await programs.lab()
    steps = {"steps": [{"complete": {"result": LARGE}}]}
    async with connect(programs.address) as client:
        made = await asyncio.gather(*(client.create("lab.script", steps) for _ in range(8)))
        for task in made:
            done = await client.wait(task.task_id, 30_000)
            assert done.state == task_pb2.TASK_STATE_COMPLETED
            assert LARGE in done.result
        listed: list[str] = []
        token = ""
        while True:
            page = await client.list(limit=200, page_token=token)
            listed += [task.task_id for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
        assert sorted(listed) == sorted(task.task_id for task in made)
        numbers = [event.sequence async for event in client.subscribe(made[0].task_id, after=0)]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.req("R029", "R031")
async def test_what_is_too_large_is_refused_and_names_its_field(programs: Programs) -> None:
    await programs.daemon()
    await programs.lab()
    async with connect(programs.address) as client:
        with pytest.raises(AiosdError, match="arguments"):
            await client.create("lab.script", {"steps": [{"complete": {"result": LARGE * 2}}]})
        task = await client.create("lab.script", {"steps": [{"ask": {"prompt": "which?"}}]})
        await client.wait(task.task_id, 30_000, terminal=False)
        with pytest.raises(AiosdError, match="input"):
            await client.submit_input(task.task_id, {"text": LARGE})
        asked = await client.get(task.task_id)
        assert asked.state == task_pb2.TASK_STATE_INPUT_REQUIRED
