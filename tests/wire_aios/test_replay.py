"""Five hundred events while a client leaves and comes back, and while what serves it is killed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.waiting import eventually
from tests.wire_aios.client import AiosClient, StreamEvent, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stack import Stack

LINES = 500
LEAVE_AFTER = 23


def steps() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for count in range(LINES):
        made.append({"log": {"level": "info", "message": str(count)}})
        if count % 5 == 0:
            made.append({"sleep_ms": 40})
    return made


class Reader:
    """Resubscribes after the last event that it saw, again and again, until the task has ended."""

    def __init__(self, aios: AiosClient, task_id: str) -> None:
        self._aios = aios
        self._task_id = task_id
        self.seen: list[StreamEvent] = []
        self.broken = 0

    async def read(self) -> None:
        while not self.seen or self.seen[-1].event != "task.result":
            try:
                await self._once()
            except httpx.TransportError:  # the gateway is gone for the moment
                self.broken += 1
                await eventually(self._reachable, within_s=30)
            except WireError as error:  # the daemon is
                if error.data.get("reason") != "daemon_unavailable":
                    raise
                self.broken += 1
                await eventually(self._reachable, within_s=30)

    async def _once(self) -> None:
        last = {"last_event_id": self.seen[-1].id} if self.seen else {}
        result = await self._aios.call("aios/task.resubscribe", task_id=self._task_id, **last)
        self.seen += [StreamEvent(**event) for event in result["missed_events"]]
        async with self._aios.stream(result["stream_url"]) as events:
            taken = 0
            async for event in events:
                self.seen.append(event)
                taken += 1
                if taken == LEAVE_AFTER:
                    break

    async def _reachable(self) -> bool:
        try:
            return (await self._aios.http.get("/health")).status_code == 200
        except httpx.TransportError:
            return False


@pytest.mark.req("R075", "R076", "R079")
@pytest.mark.parametrize(
    "killed",
    [
        pytest.param("", id="nothing", marks=pytest.mark.slow),
        pytest.param("daemon", id="daemon"),
        pytest.param("gateway", id="gateway", marks=pytest.mark.slow),
    ],
)
async def test_five_hundred_events_come_without_gap_or_repetition(
    start_stack: Callable[..., Stack], connect: Callable[[Stack], AiosClient], killed: str
) -> None:
    stack = start_stack()
    aios = connect(stack)
    task_id = await aios.create(*steps(), timeout_ms=100_000)
    reader = Reader(aios, task_id)
    reading = asyncio.create_task(reader.read())

    async def under_way() -> bool:
        return len(reader.seen) > LINES // 5

    await eventually(under_way)
    assert not reading.done()
    if killed:
        await asyncio.to_thread(stack.kill, killed)
        assert len(reader.seen) < LINES
    async with asyncio.timeout(60):
        await reading

    lines = [event.data["message"] for event in reader.seen if event.event == "task.log"]
    assert [line for line in lines if line.isdigit()] == [str(count) for count in range(LINES)]
    assert reader.seen == await aios.events(task_id)
    # A killed daemon is mostly waited for; a call that it took along is asked again.
    assert (reader.broken > 0) >= (killed == "gateway")
    assert killed or not reader.broken
    ended = await aios.get(task_id)
    assert (ended["status"], ended["attempt"]) == ("completed", 1)
