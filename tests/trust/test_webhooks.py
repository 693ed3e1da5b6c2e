"""Webhooks as a client of the AIOS wire and its receiver see them (R124-R134, X20-X23)."""

from __future__ import annotations

import hashlib
import hmac
import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from standardwebhooks import Webhook as StandardWebhook

from tests.support.raw_receiver import Receiver, answering
from tests.support.waiting import eventually
from tests.trust.webhook_calls import (
    QUICK,
    SECRET,
    TOKEN,
    WAITING,
    answer,
    deliveries,
    posts,
    subscribe,
    waiting_task,
)

if TYPE_CHECKING:
    from tests.trust.conftest import Ctl
    from tests.wire_aios.client import AiosClient


@pytest.mark.req("R124", "R125", "R126", "R127", "R128", "X20", "X21")
async def test_the_end_of_a_task_is_posted_as_the_document_says(
    aios: AiosClient, receiver: Receiver
) -> None:
    task_id = await waiting_task(aios, {"complete": {"result": {"sum": 7}}})
    made = await subscribe(
        aios,
        task_id,
        receiver.url,
        events=["completed", "failed"],
        authentication={"type": "bearer", "token": TOKEN},
        secret=SECRET,
        retry_policy={"max_retries": 3, "retry_delay_ms": 1000},
    )
    assert made["task_id"] == task_id
    assert made["webhook_url"] == receiver.url
    assert made["events"] == ["completed", "failed"]
    assert made["has_secret"] is True
    assert "signing_secret" not in made
    await answer(aios, task_id)
    (posted,) = await posts(receiver, 1)
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["authorization"] == f"Bearer {TOKEN}"
    assert posted.headers["x-aios-event"] == "task.status"
    assert posted.headers["x-aios-delivery-id"]
    digest = hmac.new(SECRET.encode(), posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["x-aios-signature"] == f"sha256={digest}"
    body = json.loads(posted.body)
    assert set(body) == {"event", "task_id", "timestamp", "data"}
    assert (body["event"], body["task_id"]) == ("task.status", task_id)
    assert body["data"]["status"] == "completed"
    assert body["data"]["result"] == {"sum": 7}


@pytest.mark.req("R128", "X20")
async def test_a_failure_carries_its_error(aios: AiosClient, receiver: Receiver) -> None:
    task_id = await waiting_task(aios, {"fail": {"code": -32603, "message": "broken"}})
    await subscribe(aios, task_id, receiver.url)
    await answer(aios, task_id)
    (posted,) = await posts(receiver, 1)
    data = json.loads(posted.body)["data"]
    assert data["status"] == "failed"
    assert data["error"]["message"] == "broken"


@pytest.mark.req("R127", "X14")
async def test_a_body_holds_the_very_data_of_the_streams_frame(
    aios: AiosClient, receiver: Receiver
) -> None:
    task_id = await waiting_task(
        aios,
        {"progress": {"percent": 50, "message": "half", "current_step": 1, "total_steps": 2}},
        {"log": {"level": "warn", "message": "careful"}},
        {"artifact": {"name": "a.txt", "parts": [{"type": "text", "text": "x"}]}},
        {"auth": {"type": "api_key", "provider": "p", "reason": "r"}},
    )
    before = len(await aios.events(task_id))
    await subscribe(aios, task_id, receiver.url, events=["status", "progress", "artifact", "log"])
    await answer(aios, task_id)
    await aios.until(task_id, "auth_required")
    secret = {"type": "api_key", "api_key": "canary-key-0123456789"}
    await aios.call("aios/task.authenticate", task_id=task_id, auth_response=secret)
    await aios.ended(task_id)
    frames = (await aios.events(task_id))[before:]
    bodies = [json.loads(one.body) for one in await posts(receiver, len(frames))]
    assert [one["event"] for one in bodies] == [one.event for one in frames]
    for body, frame in zip(bodies, frames, strict=True):
        if body["data"].get("status") != "completed":
            assert body["data"] == frame.data
    end = next(one for one in bodies if one["data"].get("status") == "completed")
    frame = next(one for one in frames if one.data.get("status") == "completed")
    assert end["data"] == frame.data | {"result": end["data"]["result"]}


@pytest.mark.req("S-25", "I34")
async def test_standard_webhooks_verifies_what_is_sent(
    aios: AiosClient, receiver: Receiver
) -> None:
    task_id = await waiting_task(aios)
    made = await subscribe(aios, task_id, receiver.url)
    assert made["signing_secret"].startswith("whsec_")
    await answer(aios, task_id)
    (posted,) = await posts(receiver, 1)
    verified = StandardWebhook(made["signing_secret"]).verify(posted.body, posted.headers)
    assert verified == json.loads(posted.body)
    assert posted.headers["webhook-id"] == posted.headers["x-aios-delivery-id"]
    assert "." not in posted.headers["webhook-id"]
    key = made["signing_secret"].encode()
    digest = hmac.new(key, posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["x-aios-signature"] == f"sha256={digest}"


@pytest.mark.req("R126", "X21")
async def test_without_a_secret_the_token_signs(aios: AiosClient, receiver: Receiver) -> None:
    task_id = await waiting_task(aios)
    made = await subscribe(
        aios, task_id, receiver.url, authentication={"type": "bearer", "token": TOKEN}
    )
    assert made["has_secret"] is False
    assert "signing_secret" not in made
    await answer(aios, task_id)
    (posted,) = await posts(receiver, 1)
    digest = hmac.new(TOKEN.encode(), posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["x-aios-signature"] == f"sha256={digest}"


@pytest.mark.req("R129", "I34", "X22")
async def test_a_failed_delivery_is_repeated_with_the_same_id_and_a_fresh_time(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    receiver.behave = answering(500, body=b"not now")
    task_id = await waiting_task(aios)
    await subscribe(aios, task_id, receiver.url, retry_policy=QUICK, secret=SECRET)
    await answer(aios, task_id)
    tried = await posts(receiver, 3)
    (dead,) = await deliveries(ctl, task_id, "dead_letter", 1)
    assert dead["attempts"] == 3
    assert dead["last_status"] == 500
    assert "not now" in dead["last_error"]
    assert len(receiver.posted) == 3
    assert len({one.headers["x-aios-delivery-id"] for one in tried}) == 1
    assert len({one.headers["x-aios-timestamp"] for one in tried}) == 3
    assert len({one.body for one in tried}) == 1
    assert all(b.at - a.at >= 0.09 for a, b in pairwise(tried))


@pytest.mark.req("R130", "R198", "Z40")
async def test_a_dead_webhook_never_changes_the_task(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    url = receiver.url
    await receiver.stop()
    task_id = await waiting_task(aios, {"complete": {"result": 1}})
    await subscribe(aios, task_id, url, retry_policy={"max_retries": 0, "retry_delay_ms": 0})
    await answer(aios, task_id)
    assert (await aios.ended(task_id))["status"] == "completed"
    (dead,) = await deliveries(ctl, task_id, "dead_letter", 1)
    assert dead["last_error"]
    assert (await aios.get(task_id))["result"] == 1


@pytest.mark.req("S-26")
async def test_a_receiver_that_is_gone_is_asked_once(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    receiver.behave = answering(410)
    task_id = await waiting_task(aios)
    await subscribe(aios, task_id, receiver.url, events=["status"], retry_policy=QUICK)
    await answer(aios, task_id)
    await aios.ended(task_id)

    async def disabled() -> bool:
        _, found = await ctl("webhooks", "list", task_id)
        return bool(found[0].get("disabled"))

    await eventually(disabled)

    async def none_pending() -> bool:
        _, found = await ctl("webhooks", "deliveries", "--task", task_id, "--state", "pending")
        return not found

    await eventually(none_pending)
    assert len(receiver.posted) == 1


@pytest.mark.req("S-26")
async def test_retry_after_is_honoured(aios: AiosClient, receiver: Receiver) -> None:
    receiver.behave = answering(429, headers="Retry-After: 1\r\n")
    task_id = await waiting_task(aios)
    await subscribe(
        aios, task_id, receiver.url, retry_policy={"max_retries": 1, "retry_delay_ms": 10}
    )
    await answer(aios, task_id)
    first, second = await posts(receiver, 2)
    assert second.at - first.at >= 0.99


async def test_a_dead_letter_can_be_delivered_again(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    receiver.behave = answering(503)
    task_id = await waiting_task(aios)
    await subscribe(
        aios, task_id, receiver.url, retry_policy={"max_retries": 0, "retry_delay_ms": 0}
    )
    await answer(aios, task_id)
    (dead,) = await deliveries(ctl, task_id, "dead_letter", 1)
    receiver.behave = answering(200)
    code, again = await ctl("webhooks", "redeliver", dead["delivery_id"])
    assert (code, again["delivery_id"]) == (0, dead["delivery_id"])
    await deliveries(ctl, task_id, "succeeded", 1)
    ids = [one.headers["x-aios-delivery-id"] for one in receiver.posted]
    assert ids == [dead["delivery_id"]] * 2
    code, _ = await ctl("webhooks", "redeliver", dead["delivery_id"])
    assert code == 1


@pytest.mark.req("S-25", "I34")
async def test_after_a_rotation_both_secrets_verify(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    task_id = await waiting_task(aios)
    made = await subscribe(aios, task_id, receiver.url)
    code, rotated = await ctl("webhooks", "rotate", task_id, made["webhook_id"])
    assert code == 0
    await answer(aios, task_id)
    (posted,) = await posts(receiver, 1)
    for secret in (rotated["signing_secret"], made["signing_secret"]):
        assert StandardWebhook(secret).verify(posted.body, posted.headers)
    digest = hmac.new(rotated["signing_secret"].encode(), posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["x-aios-signature"] == f"sha256={digest}"


@pytest.mark.req("R190", "Z29")
async def test_events_of_a_task_arrive_in_their_order_and_once(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    steps = [{"log": {"level": "info", "message": str(number)}} for number in range(40)]
    task_id = await waiting_task(aios, *steps)
    await subscribe(aios, task_id, receiver.url, events=["log", "task.log"])
    await answer(aios, task_id)
    await aios.ended(task_id)
    posted = await posts(receiver, 40)
    messages = [json.loads(one.body)["data"]["message"] for one in posted]
    assert messages == [str(number) for number in range(40)]
    ids = {one.headers["x-aios-delivery-id"] for one in posted}
    assert len(ids) == 40


@pytest.mark.req("S-20")
async def test_the_eleventh_webhook_of_a_task_is_refused(
    aios: AiosClient, receiver: Receiver
) -> None:
    task_id = await waiting_task(aios)
    for number in range(10):
        await subscribe(aios, task_id, f"{receiver.url}/{number}")
    error = await aios.refused(
        "aios/task.subscribe_webhook",
        task_id=task_id,
        webhook_url=f"{receiver.url}/10",
        events=["completed"],
    )
    assert error.code == -32007
    assert error.data["limit"] == 10


async def test_a_receiver_that_was_gone_can_be_registered_again(
    aios: AiosClient, receiver: Receiver, ctl: Ctl
) -> None:
    receiver.behave = answering(410)
    task_id = await waiting_task(aios, WAITING)
    await subscribe(aios, task_id, receiver.url, events=["status"])
    await answer(aios, task_id)

    async def disabled(wanted: bool) -> bool:
        _, found = await ctl("webhooks", "list", task_id)
        return bool(found[0].get("disabled")) is wanted

    await eventually(lambda: disabled(True))
    receiver.behave = answering(200)
    await subscribe(aios, task_id, receiver.url, events=["completed"])
    assert await disabled(False)
    await aios.until(task_id, "input_required")
    await answer(aios, task_id)

    async def arrived() -> bool:
        return any(b"completed" in one.body for one in receiver.posted)

    await eventually(arrived)
