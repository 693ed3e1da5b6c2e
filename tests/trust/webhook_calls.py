"""What tests of webhooks say to the service, and how they wait for what it posts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.raw_receiver import Posted, Receiver
    from tests.trust.conftest import Ctl
    from tests.wire_aios.client import AiosClient

QUICK = {"max_retries": 2, "retry_delay_ms": 100}
TOKEN = "webhook-secret-token"
SECRET = "a-secret-of-enough-characters"
WAITING = {"ask": {"prompt": "go on?"}}


async def subscribe(aios: AiosClient, task_id: str, url: str, **params: Any) -> dict[str, Any]:
    params.setdefault("events", ["completed", "failed", "canceled"])
    result: dict[str, Any] = await aios.call(
        "aios/task.subscribe_webhook", task_id=task_id, webhook_url=url, **params
    )
    return result


async def waiting_task(aios: AiosClient, *after: dict[str, Any]) -> str:
    """A task that stands until it is answered, so that a webhook is there before its end."""
    task_id = await aios.create(WAITING, *after)
    await aios.until(task_id, "input_required")
    return task_id


async def answer(aios: AiosClient, task_id: str) -> None:
    await aios.call("aios/task.input", task_id=task_id, input={"go": "on"})


async def posts(receiver: Receiver, count: int, within_s: float = 15) -> list[Posted]:
    async def look() -> bool:
        return len(receiver.posted) >= count

    await eventually(look, within_s=within_s)
    return receiver.posted


async def deliveries(ctl: Ctl, task_id: str, state: str, count: int) -> list[dict[str, Any]]:
    async def look() -> list[dict[str, Any]]:
        code, found = await ctl("webhooks", "deliveries", "--task", task_id)
        assert code == 0, found
        return found if [one["state"] for one in found] == [state] * count else []

    return await eventually(look)
