"""Canaries planted wherever a secret can enter are found nowhere (H25, I40, S-28..S-31)."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import eventually
from tests.trust.conftest import ctl_of
from tests.trust.webhook_calls import answer, subscribe
from tests.wire_aios.client import AiosClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.raw_receiver import Posted, Receiver
    from tests.support.stack import Stack

CANARY = "CANARY"
TOKEN = "CANARY-token-5f1e0c9a"
SECRET = "CANARY-secret-77b2d1e4f0"
API_KEY = "CANARY-key-90ab12cd34"
HEADER = "CANARY-header-1a2b3c4d"
NESTED = "CANARY-nested-9f8e7d6c"
BEARER = "CANARYbearer0123456789"


def spellings(text: str) -> list[bytes]:
    """As it is, in hex and in base64 at each of the three offsets."""
    raw = text.encode()
    encoded = [base64.b64encode(b"\0" * pad + raw)[4 * (pad > 0) : -4] for pad in range(3)]
    return [raw, raw.hex().encode(), *(one[4:] for one in encoded)]


def found_in(folder: Path) -> list[str]:
    """Where any spelling of a canary is in any file, the write-ahead log and the logs too."""
    wanted = [
        (name, spelling)
        for name in (TOKEN, SECRET, API_KEY, HEADER, NESTED, BEARER)
        for spelling in spellings(name)
    ]
    hits = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            hits += [f"{path.name}: {name}" for name, spelling in wanted if spelling in content]
    return hits


@pytest.mark.req("H25", "I40", "S-28", "S-29", "S-31", "R113", "R134")
async def test_no_canary_is_found_in_files_logs_answers_events_or_posts(
    own_stack: Stack, receiver: Receiver
) -> None:
    aios = AiosClient(own_stack.http, own_stack.token)
    said: list[Any] = []
    echoed = f"denied with Authorization: Bearer {TOKEN} and {SECRET}".encode()

    async def echoing(posted: Posted, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 500 X\r\nContent-Length: {len(echoed)}\r\n\r\n"
        writer.write(head.encode() + echoed)
        await writer.drain()

    receiver.behave = echoing
    metadata = {
        "note": "plain",
        "request": {"headers": {"Authorization": f"Bearer {BEARER}", "X-Api-Key": HEADER}},
        "deep": [{"api_key": NESTED}],
    }
    task_id = await aios.create(
        {"auth": {"type": "api_key", "provider": "p", "reason": "r"}},
        {"ask": {"prompt": "?"}},
        {"log": {"level": "info", "message": f"using {API_KEY}"}},
        {"fail": {"message": f"the key {API_KEY} was refused"}},
        metadata=metadata,
    )
    await aios.until(task_id, "auth_required")
    response = {"type": "api_key", "api_key": API_KEY}
    said.append(await aios.call("aios/task.authenticate", task_id=task_id, auth_response=response))
    await aios.until(task_id, "input_required")
    said.append(
        await subscribe(
            aios,
            task_id,
            receiver.url,
            events=["status", "log"],
            secret=SECRET,
            authentication={"type": "bearer", "token": TOKEN},
            retry_policy={"max_retries": 0, "retry_delay_ms": 0},
        )
    )
    error = await aios.refused("aios/task.input", task_id=task_id, input={"password": f"{HEADER}x"})
    said.append(error.data)
    await answer(aios, task_id)
    task = await aios.ended(task_id)
    assert task["status"] == "failed"
    ctl = ctl_of(own_stack)

    async def tried() -> list[Any]:
        _, found = await ctl("webhooks", "deliveries", "--task", task_id)
        return found if found and all(one["state"] == "dead_letter" for one in found) else []

    said += await eventually(tried)
    said += [task, await aios.history(task_id)]
    said += [[one.id, one.event, one.data] for one in await aios.events(task_id)]
    for words in (("audit", "list"), ("webhooks", "list", task_id), ("get", task_id), ("info",)):
        said.append((await ctl(*words))[1])
    said += [one.body.decode() for one in receiver.posted]
    # The lab says what its script says, so the key stands in the arguments and nowhere else.
    for one in said:
        for record in one if isinstance(one, list) else ():
            if isinstance(record, dict) and record.get("event") == "task.created":
                assert NESTED not in json.dumps(record["details"].pop("arguments"))
        if isinstance(one, dict):
            one.pop("arguments", None)
    assert CANARY not in json.dumps(said)
    assert "the key *** was refused" in json.dumps(task["error"])
    await asyncio.to_thread(own_stack.kill, "daemon")
    await asyncio.to_thread(own_stack.stop)
    await aios.http.aclose()
    hits = [hit for hit in found_in(own_stack.directory) if not hit.endswith(API_KEY)]
    assert hits == []


@pytest.mark.req("S-28")
async def test_the_secrets_of_a_webhook_are_deleted_with_it(
    own_stack: Stack, receiver: Receiver
) -> None:
    aios = AiosClient(own_stack.http, own_stack.token)
    task_id = await aios.create({"ask": {"prompt": "?"}})
    await aios.until(task_id, "input_required")
    await subscribe(aios, task_id, receiver.url, secret=SECRET)

    def count() -> int:
        with closing(sqlite3.connect(own_stack.state_dir / "aiosd.db")) as store:
            (rows,) = store.execute("SELECT count(*) FROM secrets").fetchone()
        return int(rows)

    assert count() == 1
    await aios.call("aios/task.unsubscribe_webhook", task_id=task_id, webhook_url=receiver.url)
    assert count() == 0
    await aios.close()
