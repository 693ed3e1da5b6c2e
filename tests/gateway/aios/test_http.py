from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.aios import accept
from tests.gateway.aios.reference_daemon import TOKEN
from tests.support.sse_parser import SseParser

if TYPE_CHECKING:
    from tests.gateway.aios.conftest import Gateway
    from tests.gateway.aios.reference_daemon import ReferenceDaemon


def call(method: str, call_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}


@pytest.mark.req("R002")
@pytest.mark.parametrize(
    ("body", "code", "call_id"),
    [
        (b"{", -32700, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"1.0","id":5,"method":"aios/ping"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":"x","method":"aios/none"}', -32601, "x"),
        (b'{"jsonrpc":"2.0","id":2,"method":"aios/task.get","params":[1]}', -32602, 2),
        (b'{"jsonrpc":"2.0","id":2,"method":"aios/task.get","params":{"a":1,"a":2}}', -32700, None),
    ],
    ids=repr,
)
async def test_errors_of_the_envelope_are_http_200(
    gateway: Gateway, body: bytes, code: int, call_id: Any
) -> None:
    headers = {"content-type": "application/json"}
    answer = await gateway.client.post("/aios/rpc", content=body, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    response = answer.json()
    assert (response["error"]["code"], response["id"]) == (code, call_id)
    assert {"error_id", "timestamp", "trace_id"} <= response["error"]["data"].keys()


@pytest.mark.req("R002")
async def test_a_batch_is_answered_under_its_ids(gateway: Gateway) -> None:
    body = [
        call("aios/ping", "a"),
        {"jsonrpc": "2.0", "method": "aios/ping"},
        call("aios/nothing", 2),
        3,
    ]
    answer = await gateway.client.post("/aios/rpc", json=body)
    found = {item["id"]: item for item in answer.json()}
    assert found.keys() == {"a", 2, None}
    assert "result" in found["a"]
    assert found[2]["error"]["code"] == -32601
    assert found[None]["error"]["code"] == -32600


async def test_notifications_alone_are_accepted_without_a_body(gateway: Gateway) -> None:
    for body in (
        {"jsonrpc": "2.0", "method": "aios/initialized"},
        [{"jsonrpc": "2.0", "method": "aios/ping"}, {"jsonrpc": "2.0", "method": "aios/none"}],
    ):
        answer = await gateway.client.post("/aios/rpc", json=body)
        assert (answer.status_code, answer.content) == (202, b"")


async def test_a_plain_call_may_be_answered_as_one_frame(gateway: Gateway) -> None:
    headers = {"accept": "text/event-stream"}
    answer = await gateway.client.post("/aios/rpc", json=call("aios/ping", 9), headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    (event,) = SseParser().feed(answer.content)
    assert event.type == "message"
    assert json.loads(event.data)["id"] == 9


@pytest.mark.parametrize(
    ("header", "form"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("application/json", "json"),
        ("text/event-stream", "stream"),
        ("application/json, text/event-stream", "stream"),
        ("application/json, text/event-stream;q=0.5", "json"),
        ("text/event-stream;q=0, application/json", "json"),
        ("text/html", None),
        ("application/json;q=0", None),
        ("application/json;q=x", None),
    ],
    ids=str,
)
def test_accept_chooses_the_form(header: str | None, form: str | None) -> None:
    assert accept.choose(header) == form


async def test_http_statuses_are_those_of_the_table(gateway: Gateway) -> None:
    client, body = gateway.client, call("aios/ping")
    refused = await client.get("/aios/rpc")
    assert refused.status_code == 405
    assert set(refused.headers["allow"].split(", ")) == {"POST", "DELETE"}
    assert (await client.get("/nowhere")).status_code == 404
    plain = {"content-type": "text/plain"}
    assert (await client.post("/aios/rpc", content=b"{}", headers=plain)).status_code == 415
    html = {"accept": "text/html"}
    assert (await client.post("/aios/rpc", json=body, headers=html)).status_code == 406
    too_long = {"params": {"x": "y" * 2_000_000}}
    assert (await client.post("/aios/rpc", json=body | too_long)).status_code == 413
    del client.headers["authorization"]
    answer = await client.post("/aios/rpc", json=body)
    assert (answer.status_code, "www-authenticate" in answer.headers) == (401, True)


async def test_nobody_but_the_callers_token_reaches_the_daemon(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    daemon.put()
    await gateway.result(
        "aios/task.get",
        {"task_id": "task-1"},
        traceparent=trace,
        **{"aios-request-id": "req-7"},
    )
    assert daemon.metadata["authorization"] == f"Bearer {TOKEN}"
    assert daemon.metadata["x-request-id"] == "req-7"
    assert daemon.metadata["traceparent"][:36] == trace[:36]


async def test_the_trace_of_a_request_is_in_its_errors(gateway: Gateway) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    error = await gateway.error("aios/task.get", {"task_id": "no"}, traceparent=trace)
    assert error["data"]["trace_id"] == "0af7651916cd43dd8448eb211c80319c"


async def test_a_version_that_nobody_speaks_is_refused(gateway: Gateway) -> None:
    error = await gateway.error("aios/ping", **{"aios-version": "9.9.9"})
    assert (error["code"], error["data"]["error_id"]) == (-32009, "AIOS-VERSION-MISMATCH")
    await gateway.result("aios/ping", **{"aios-version": "0.3.0"})


async def test_health_is_public_and_true(gateway: Gateway, daemon: ReferenceDaemon) -> None:
    del gateway.client.headers["authorization"]
    answer = await gateway.client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    await daemon.stop()
    answer = await gateway.client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")


async def test_a_call_waits_for_a_daemon_that_comes_back(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    import asyncio

    daemon.put()
    await daemon.stop()
    asked = asyncio.create_task(gateway.result("aios/task.get", {"task_id": "task-1"}))
    await asyncio.sleep(0.01)
    await daemon.start()
    assert (await asked)["task_id"] == "task-1"


@pytest.mark.slow
async def test_a_daemon_that_stays_away_is_an_error_of_the_call(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    await daemon.stop()
    answer = await gateway.post("aios/task.get", {"task_id": "task-1"})
    assert answer.status_code == 200
    error = answer.json()["error"]
    assert (error["code"], error["data"]["reason"]) == (-32603, "daemon_unavailable")
    assert "sock" not in answer.text


async def test_discovery_describes_every_method(gateway: Gateway) -> None:
    document = await gateway.result("rpc.discover")
    create = next(m for m in document["methods"] if m["name"] == "aios/task.create")
    assert create["params"][0]["name"] == "capability_id"
    assert create["params"][0]["required"] is True
    options = document["components"]["schemas"]["CreateOptions"]["properties"]
    assert options["timeout_ms"]["minimum"] == 1
    assert options["priority"]["enum"] == ["low", "normal", "high", "urgent"]
    assert all(method["summary"] for method in document["methods"])


async def test_metrics_tell_what_was_called_and_need_a_token(gateway: Gateway) -> None:
    await gateway.result("aios/ping")
    await gateway.error("aios/task.get", {"task_id": "none"})
    text = (await gateway.client.get("/metrics")).text
    assert 'aios_gateway_calls_total{code="0",method="aios/ping"}' in text
    assert 'aios_gateway_calls_total{code="-32106",method="aios/task.get"}' in text
    assert "aios_gateway_daemon_up 1.0" in text
    del gateway.client.headers["authorization"]
    assert (await gateway.client.get("/metrics")).status_code == 401


@pytest.mark.req("X38")
async def test_a_session_is_known_by_its_header_until_it_is_ended(
    gateway: Gateway, daemon: ReferenceDaemon
) -> None:
    hello = {"protocol_version": "0.3.0", "client_info": {"name": "c", "version": "1"}}
    session = (await gateway.result("aios/initialize", hello))["session"]
    assert session == {
        "session_id": "sess-1",
        "created_at": "2026-01-05T10:00:00.000Z",
        "expires_at": "2026-01-05T11:00:00.000Z",
    }
    header = {"aios-session-id": "sess-1"}
    create = {"capability_id": "lab.script", "options": {"async": True}}
    await gateway.result("aios/task.create", create, **header)
    assert daemon.asked[-1].session_id == "sess-1"
    again = await gateway.client.delete("/aios/rpc", headers=header)
    assert (again.status_code, again.json()["pending_tasks_cancelled"]) == (200, 2)
    assert (await gateway.client.delete("/aios/rpc", headers=header)).status_code == 404
    assert (await gateway.client.delete("/aios/rpc")).status_code == 400
    assert (await gateway.post("aios/ping", **header)).status_code == 404
    recovered = hello | {"session_recovery": {"previous_session_id": "sess-1"}}
    session = (await gateway.result("aios/initialize", recovered))["session"]
    assert (session["session_id"], session["recovered"]) == ("sess-1", False)
