from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.guards import GuardPolicy, Guards
from gateway.limits import HttpLimits
from tests.support.asgi_probe import TOKEN, call, headers_of, scope_of
from tests.support.guarded_app import JSON, get, guarded, post


@pytest.mark.req("S-14")
@pytest.mark.parametrize(
    ("path", "content_type", "status"),
    [
        ("/aios/rpc", "application/json", 200),
        ("/aios/rpc", "Application/JSON; charset=UTF-8", 200),
        ("/aios/rpc", 'application/json;charset="utf-8"', 200),
        ("/aios/rpc", "application/json; charset=utf-16", 415),
        ("/aios/rpc", "application/a2a+json", 415),
        ("/aios/rpc", "text/plain", 415),
        ("/aios/rpc", "text/plain; application/json", 415),
        ("/aios/rpc", "application/x-www-form-urlencoded", 415),
        ("/aios/rpc", "multipart/form-data; boundary=x", 415),
        ("/aios/rpc", "", 415),
        ("/a2a/message:send", "application/a2a+json", 200),
        ("/a2a/message:send", "application/json", 200),
        ("/a2ax", "application/a2a+json", 415),
    ],
)
async def test_a_body_has_a_media_type_that_a_form_cannot_have(
    path: str, content_type: str, status: int
) -> None:
    answer = await post(path, b"{}", ("content-type", content_type))
    assert answer.status == status


@pytest.mark.req("S-14")
async def test_a_body_without_or_with_two_media_types_is_refused() -> None:
    assert (await post("/aios/rpc", b"{}")).status == 415
    assert (await post("/aios/rpc", b"{}", JSON, ("content-type", "text/plain"))).status == 415
    assert (await post("/aios/rpc", b"", ("content-type", "text/plain"))).status == 415


async def test_an_empty_post_needs_no_media_type() -> None:
    assert (await post("/aios/rpc", b"")).status == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", ""])
async def test_compressed_bodies_are_not_read(encoding: str) -> None:
    assert (await post("/aios/rpc", b"{}", JSON, ("content-encoding", encoding))).status == 415


@pytest.mark.req("S-15")
async def test_a_body_up_to_the_limit_passes_and_one_byte_more_does_not() -> None:
    limits = HttpLimits(body_bytes=100)
    app = guarded(GuardPolicy(limits=limits, body_bytes={"/big": 200}))
    assert (await post("/aios/rpc", b"x" * 100, JSON, app=app)).json()["length"] == 100
    answer = await post("/aios/rpc", b"x" * 101, JSON, app=app)
    assert (answer.status, answer.reason) == (413, "body_too_large")
    assert "connection" not in answer.headers
    assert (await post("/big", b"x" * 200, JSON, app=app)).json()["length"] == 200
    assert (await post("/big", b"x" * 201, JSON, app=app)).status == 413


@pytest.mark.req("S-15")
async def test_a_body_without_a_length_is_counted_as_it_arrives() -> None:
    app = guarded(GuardPolicy(limits=HttpLimits(body_bytes=100)))
    scope = scope_of(headers=headers_of(JSON, ("transfer-encoding", "chunked")))
    assert (await call(app, scope, [b"x" * 50] * 2)).json()["length"] == 100
    scope = scope_of(headers=headers_of(JSON, ("transfer-encoding", "chunked")))
    answer = await call(app, scope, [b"x" * 50] * 4)
    assert (answer.status, len(answer.received)) == (413, 4)
    scope = scope_of(headers=headers_of(JSON, ("transfer-encoding", "chunked")))
    assert (await call(app, scope, [b"x" * 101])).status == 413


@pytest.mark.req("S-15")
async def test_a_body_announced_far_beyond_the_limit_is_not_read_at_all() -> None:
    for extra in (("content-length", str(10**9)), ("content-length", "9" * 20)):
        answer = await call(guarded(), scope_of(headers=headers_of(JSON, extra)), [b"x"])
        assert (answer.status, answer.headers["connection"], answer.received) == (413, "close", [])


async def test_a_client_that_asks_before_it_sends_is_refused_before_it_sends() -> None:
    headers = headers_of(("content-length", "5"), ("expect", "100-continue"), token=None)
    answer = await call(guarded(), scope_of(headers=headers), [b"hello"])
    assert (answer.status, answer.headers["connection"], answer.received) == (401, "close", [])


async def test_a_refused_body_is_read_to_its_end_so_that_the_answer_arrives() -> None:
    headers = headers_of(("content-length", "10"), token=None)
    answer = await call(guarded(), scope_of(headers=headers), [b"hello"] * 2)
    assert (answer.status, len(answer.received)) == (401, 2)
    assert "connection" not in answer.headers


@pytest.mark.req("S-15")
async def test_a_body_that_does_not_arrive_in_time_is_a_timeout() -> None:
    app = guarded(GuardPolicy(limits=HttpLimits(body_seconds=0.01)))
    scope = scope_of(headers=headers_of(JSON, ("content-length", "10")))
    answer = await call(Truncated(app), scope, [b"hel", b"lo"])
    assert (answer.status, answer.reason) == (408, "body_timeout")
    assert answer.headers["connection"] == "close"


class Truncated:
    """Hides the end of a body, as a client does that stops sending."""

    def __init__(self, app: Guards) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def receive_more() -> Any:
            return {**await receive(), "more_body": True}

        await self._app(scope, receive_more, send)


async def test_nothing_is_answered_to_a_client_that_left_while_sending() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = scope_of(headers=headers_of(JSON, ("content-length", "10")))
    await guarded()(scope, receive, send)
    assert sent == []


@pytest.mark.req("S-15")
@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"path": "/" + "a" * 8200}, 414),
        ({"path": "/aios/events", "query": b"q=" + b"a" * 8200}, 414),
        ({"path": "/aios/events", "query": b"q=" + b"a" * 8000}, 200),
    ],
    ids=["path", "query", "fits"],
)
async def test_a_long_request_line_is_refused(how: dict[str, Any], status: int) -> None:
    assert (await get(**how)).status == status


@pytest.mark.req("S-15")
async def test_headers_beyond_their_limit_are_refused() -> None:
    assert (await get("/aios/events", ("x-a", "a" * 15_000))).status == 200
    many = [(f"x-{n}", "a" * 100) for n in range(160)]
    for extra in ([("x-a", "a" * 16_384)], many):
        assert (await get("/aios/events", *extra)).status == 431


@pytest.mark.parametrize("path", ["*", "http://evil.test/health", "evil.test:80", ""])
async def test_a_target_that_is_no_path_is_refused(path: str) -> None:
    assert (await get(path)).reason == "bad_target"


async def test_the_body_reaches_the_route_whole_and_once() -> None:
    scope = scope_of(headers=headers_of(JSON, ("content-length", "10")))
    answer = await call(guarded(), scope, [b"hello", b"world"])
    assert json.loads(answer.body) == {"bearer": TOKEN, "length": 10}
