"""A page of hostile bodies: each gets its exact code, none a 5xx, and the service goes on."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient

PARSE, INVALID, PARAMS, NOT_FOUND = -32700, -32600, -32602, -32601


def call(params: str, method: str = "aios/task.create", call_id: str = "1") -> bytes:
    text = f'{{"jsonrpc":"2.0","id":{call_id},"method":"{method}","params":{params}}}'
    return text.encode("utf-8", "surrogatepass")


def create(member: str) -> bytes:
    return call(f'{{"capability_id":"lab.script",{member}}}')


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", PARSE),
    "no JSON": (b"{", PARSE),
    "invalid UTF-8": (call('{"task_id":"x"}').replace(b'"x"', b'"\xff\xfe"'), PARSE),
    "NaN": (create('"options":{"timeout_ms":NaN}'), PARSE),
    "infinity": (create('"options":{"timeout_ms":-Infinity}'), PARSE),
    "1e400": (create('"options":{"timeout_ms":1e400}'), PARSE),
    "duplicate keys": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"aios/task.list"}', PARSE),
    "escaped lone surrogate": (create('"metadata":{"a":"\\ud800"}'), PARSE),
    "encoded lone surrogate": (create('"metadata":{"a":"\ud800"}'), PARSE),
    "depth 1000": (create('"arguments":{"a":' + "[" * 1000 + "]" * 1000 + "}"), PARSE),
    "unclosed depth": (b"[" * 100_000, PARSE),
    "5000 digits": (create('"options":{"timeout_ms":' + "9" * 5000 + "}"), PARSE),
    "a string": (b'"x"', INVALID),
    "null": (b"null", INVALID),
    "a number": (b"1", INVALID),
    "an empty batch": (b"[]", INVALID),
    "id null": (call("{}", "aios/task.list", "null"), INVALID),
    "id of a fraction": (call("{}", "aios/task.list", "1.5"), INVALID),
    "id of an object": (call("{}", "aios/task.list", "{}"), INVALID),
    "id of a list": (call("{}", "aios/task.list", "[1]"), INVALID),
    "id true": (call("{}", "aios/task.list", "true"), INVALID),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"aios/task.list"}', INVALID),
    "method of a number": (b'{"jsonrpc":"2.0","id":1,"method":1}', INVALID),
    "unknown method": (call("{}", "aios/task.explode"), NOT_FOUND),
    "params of a list": (call("[1]"), PARAMS),
    "params of a string": (call('"x"'), PARAMS),
    "capability of a number": (call('{"capability_id":1}'), PARAMS),
    "arguments of a list": (create('"arguments":[]'), PARAMS),
    "a number as text": (create('"options":{"timeout_ms":"1000"}'), PARAMS),
    "true as a number": (create('"options":{"timeout_ms":true}'), PARAMS),
    "a fraction": (create('"options":{"timeout_ms":1.5}'), PARAMS),
    "a negative time": (create('"options":{"timeout_ms":-1}'), PARAMS),
    "20 digits": (create('"options":{"timeout_ms":99999999999999999999}'), PARSE),
    "a time without end": (create('"options":{"timeout_ms":9007199254740991}'), PARAMS),
    "unknown priority": (create('"options":{"priority":"supreme"}'), PARAMS),
    "async of text": (create('"options":{"async":"yes"}'), PARAMS),
    "no attempts": (create('"options":{"retry":{"max_attempts":0}}'), PARAMS),
    "unknown status": (call('{"filter":{"status":["odd"]}}', "aios/task.list"), PARAMS),
    "unknown sort field": (call('{"sort":{"field":"odd"}}', "aios/task.list"), PARAMS),
    "a negative offset": (call('{"pagination":{"offset":-1}}', "aios/task.list"), PARAMS),
    "no task": (call("{}", "aios/task.get"), PARAMS),
    "task null": (call('{"task_id":null}', "aios/task.get"), PARAMS),
}


async def post(aios: AiosClient, body: bytes) -> Any:
    answer = await aios.http.post(
        "/aios/rpc", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.req("R002", "R102", "R105")
@pytest.mark.parametrize("name", BODIES)
async def test_a_hostile_body_gets_its_exact_code(aios: AiosClient, name: str) -> None:
    body, code = BODIES[name]
    answer = await post(aios, body)
    assert answer["error"]["code"] == code, answer
    assert answer["error"]["data"].keys() >= {"error_id", "timestamp", "trace_id"}
    if code != INVALID:  # an invalid call may have had no id, or none that can be given back
        assert answer["id"] == (None if code == PARSE else 1)


@pytest.mark.req("R002")
async def test_batches_of_one_and_of_too_many(aios: AiosClient) -> None:
    one = json.loads(call("{}", "aios/task.list"))
    assert [answer["id"] for answer in await post(aios, json.dumps([one]).encode())] == [1]
    many = await post(aios, json.dumps([one] * 1000).encode())
    assert many["error"]["code"] == INVALID
    mixed = await post(aios, json.dumps([1, one, {}]).encode())
    assert [answer.get("error", {}).get("code") for answer in mixed] == [INVALID, None, INVALID]


async def test_none_of_them_made_a_task_or_hurt_the_service(aios: AiosClient) -> None:
    before = (await aios.call("aios/task.list"))["total"]
    for body, _ in BODIES.values():
        await post(aios, body)
    assert (await aios.call("aios/task.list"))["total"] == before
    task_id = await aios.create()
    assert (await aios.ended(task_id))["status"] == "completed"


@pytest.mark.req("I41")
async def test_others_are_served_while_the_bodies_rain(
    aios: AiosClient, shared_stack: Stack
) -> None:
    """The same processes serve to the end, and what they hold on to does not add up."""

    async def rain() -> None:
        for _ in range(3):
            for body, _ in BODIES.values():
                await post(aios, body)

    await rain()  # what is loaded at the first use stays
    pids = [shared_stack.pids[name] for name in ("daemon", "gateway")]
    before = [resident_kib(pid) for pid in pids]
    raining = asyncio.gather(*(rain() for _ in range(4)))
    served = 0
    while not raining.done():
        task_id = await aios.create()
        assert (await aios.ended(task_id))["status"] == "completed"
        served += 1
    await raining
    assert served
    shared_stack.check()
    for pid, held in zip(pids, before, strict=True):
        assert resident_kib(pid) - held < 32 * 1024


def resident_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])
