"""Registering webhooks: replaced, refused, forgotten, secret (R124, R131-R134, X23)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.trust.webhook_calls import (
    SECRET,
    TOKEN,
    answer,
    deliveries,
    posts,
    subscribe,
    waiting_task,
)

if TYPE_CHECKING:
    from tests.support.raw_receiver import Receiver
    from tests.trust.conftest import Ctl
    from tests.wire_aios.client import AiosClient


@pytest.mark.req("R131", "X23")
async def test_after_unsubscribing_nothing_is_posted_and_repeating_it_is_harmless(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    task_id = await waiting_task(aios)
    await subscribe(aios, task_id, receiver.url)
    unsubscribe = "aios/task.unsubscribe_webhook"
    first = await aios.call(unsubscribe, task_id=task_id, webhook_url=receiver.url)
    assert first == {"task_id": task_id, "webhook_url": receiver.url, "removed": 1}
    again = await aios.call(unsubscribe, task_id=task_id, webhook_url=receiver.url)
    assert again["removed"] == 0
    await answer(aios, task_id)
    await aios.ended(task_id)
    _, found = await ctl("webhooks", "deliveries", "--task", task_id)
    assert found == []
    assert receiver.connections == 0


@pytest.mark.req("X23", "R124")
async def test_registering_again_replaces(aios: AiosClient, receiver: Receiver, ctl: Ctl) -> None:
    task_id = await waiting_task(aios)
    first = await subscribe(aios, task_id, receiver.url, secret=SECRET)
    second = await subscribe(aios, task_id, receiver.url, events=["failed"], secret=SECRET[::-1])
    assert second["webhook_id"] == first["webhook_id"]
    _, found = await ctl("webhooks", "list", task_id)
    assert [one["events"] for one in found] == [["failed"]]
    await answer(aios, task_id)
    await aios.ended(task_id)
    assert receiver.connections == 0


@pytest.mark.req("X23")
async def test_registering_on_a_task_that_has_ended_posts_its_end_once(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    task_id = await aios.create({"complete": {"result": "done"}})
    await aios.ended(task_id)
    await subscribe(aios, task_id, receiver.url)
    (posted,) = await posts(receiver, 1)
    assert json.loads(posted.body)["data"]["result"] == "done"
    await subscribe(aios, task_id, receiver.url)
    await deliveries(ctl, task_id, "succeeded", 1)
    assert len(receiver.posted) == 1
    assert (await aios.get(task_id))["status"] == "completed"


@pytest.mark.req("R132", "S-22", "H06")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]:8443/",
        "https://2130706433/",
        "ftp://example.com/",
        "https://user:password@example.com/",
    ],
)
async def test_a_target_inside_is_refused_when_it_is_registered(aios: AiosClient, url: str) -> None:
    task_id = await waiting_task(aios)
    error = await aios.refused(
        "aios/task.subscribe_webhook", task_id=task_id, webhook_url=url, events=["completed"]
    )
    assert error.code == -32602
    assert "webhook_url" in json.dumps(error.data)


@pytest.mark.req("R134", "R019", "H05")
async def test_nobody_gets_a_secret_back(aios: AiosClient, receiver: Receiver, ctl: Ctl) -> None:
    task_id = await waiting_task(aios)
    made = await subscribe(
        aios,
        task_id,
        receiver.url,
        secret=SECRET,
        authentication={"type": "bearer", "token": TOKEN},
    )
    said = [json.dumps(made)]
    for words in (
        ("webhooks", "list", task_id),
        ("webhooks", "deliveries", "--task", task_id),
        ("get", task_id),
        ("audit", "list", "--task", task_id),
    ):
        said.append(json.dumps((await ctl(*words))[1]))
    said.append(json.dumps(await aios.get(task_id, include_history=True)))
    for text in said:
        assert SECRET not in text
        assert TOKEN not in text
