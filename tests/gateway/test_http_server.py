from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.guards import GuardPolicy, Guards
from gateway.http_server import is_loopback, server_config
from gateway.limits import HttpLimits
from tests.support.asgi_probe import TOKEN
from tests.support.guarded_app import guarded
from tests.support.live_server import connected, serving

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.types import Receive, Scope, Send

SHORT_S = 0.15


def serve(limits: HttpLimits) -> AbstractAsyncContextManager[int]:
    return serving(guarded(GuardPolicy(limits=limits)), limits)


def head(
    port: int, path: str = "/aios/events", *lines: str, method: str = "GET", token: str = TOKEN
) -> bytes:
    text = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {token}",
    ]
    return "\r\n".join([*text, *lines, "", ""]).encode("latin-1")


async def test_requests_are_answered_and_the_connection_is_kept() -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        for _ in range(3):
            await client.write(head(port, "/tokens"))
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, b"welcome")
            assert "server" not in answer.headers
            assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.req("S-13", "H20")
async def test_the_port_that_was_bound_is_the_one_that_host_must_name() -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        for host, status in ((f"localhost:{port}", 200), (f"localhost:{port + 1}", 421)):
            await client.write(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert (await client.answer()).status == status


@pytest.mark.req("S-15")
@pytest.mark.parametrize(
    "partial",
    [b"G", b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "],
)
async def test_a_head_that_does_not_end_in_time_is_a_timeout(partial: bytes) -> None:
    async with serve(HttpLimits(header_seconds=SHORT_S)) as port, connected(port) as client:
        await client.write(partial)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert json.loads(answer.body)["error"]["reason"] == "head_timeout"
        assert await client.hung_up()


@pytest.mark.req("S-15")
async def test_bytes_that_trickle_in_do_not_move_the_deadline() -> None:
    async with serve(HttpLimits(header_seconds=SHORT_S)) as port, connected(port) as client:
        started = time.monotonic()

        async def trickle() -> None:
            await client.write(b"GET /health HTTP/1.1\r\nX-Slow: ")
            while True:
                await client.write(b"a")
                await asyncio.sleep(0.02)

        trickling = asyncio.create_task(trickle())
        try:
            assert (await client.answer()).status == 408
        finally:
            trickling.cancel()
        assert time.monotonic() - started < SHORT_S + 5


@pytest.mark.req("S-15")
async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serve(HttpLimits(header_seconds=SHORT_S)) as port, connected(port) as client:
        assert await client.hung_up()


@pytest.mark.req("S-15")
async def test_the_deadline_holds_for_later_requests_of_a_connection_too() -> None:
    async with serve(HttpLimits(header_seconds=SHORT_S)) as port, connected(port) as client:
        await client.write(head(port, "/tokens"))
        assert (await client.answer()).status == 200
        await client.write(b"GET /tok")
        assert (await client.answer()).status == 408


@pytest.mark.req("S-15")
async def test_the_deadline_holds_for_what_was_pipelined_behind_a_request() -> None:
    async with serve(HttpLimits(header_seconds=SHORT_S)) as port, connected(port) as client:
        await client.write(head(port, "/tokens") * 2 + b"GET /tok")
        assert [(await client.answer()).status for _ in range(3)] == [200, 200, 408]


@pytest.mark.req("S-15")
async def test_an_answer_may_take_longer_than_a_head() -> None:
    release = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    limits = HttpLimits(header_seconds=SHORT_S)
    async with serving(slow, limits) as port, connected(port) as client:
        await client.write(head(port))
        async with connected(port) as silent:
            assert await silent.hung_up()
        release.set()
        assert (await client.answer()).status == 200


async def test_a_stream_hears_that_its_reader_left_even_after_a_body() -> None:
    left = asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        assert (await receive())["body"] == b"{}"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with serving(Guards(stream, GuardPolicy()), HttpLimits()) as port:
        async with connected(port) as client:
            lines = ("Content-Type: application/json", "Content-Length: 2")
            await client.write(head(port, "/aios/rpc", *lines, method="POST") + b"{}")
            assert (await client.answer()).status == 200
            assert not left.is_set()
        await asyncio.wait_for(left.wait(), 5)


@pytest.mark.req("S-15")
async def test_an_idle_connection_is_closed_after_its_keep_alive() -> None:
    async with serve(HttpLimits(keep_alive_seconds=1)) as port, connected(port) as client:
        await client.write(head(port, "/tokens"))
        assert (await client.answer()).status == 200
        assert await client.hung_up()


@pytest.mark.req("S-15")
async def test_a_body_that_does_not_arrive_in_time_is_a_timeout() -> None:
    async with serve(HttpLimits(body_seconds=SHORT_S)) as port, connected(port) as client:
        lines = ("Content-Type: application/json", "Content-Length: 10")
        await client.write(head(port, "/aios/rpc", *lines, method="POST") + b"{")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert await client.hung_up()


@pytest.mark.req("S-15")
@pytest.mark.parametrize(
    "line", ["X-Long: " + "a" * 30_000, "\r\n".join(f"X-{n}: {'a' * 90}" for n in range(300))]
)
async def test_a_head_beyond_every_limit_is_refused(line: str) -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        await client.write(head(port, "/health", line))
        assert (await client.answer()).status in {400, 431}


@pytest.mark.req("S-15")
async def test_a_head_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        await client.write(b"GET /health HTTP/1.1\r\nX-Long: " + b"a" * 30_000)
        assert (await client.answer()).status == 400
        assert await client.hung_up()


@pytest.mark.req("S-13")
async def test_a_request_that_names_two_hosts_is_no_request() -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        host = f"Host: 127.0.0.1:{port}\r\n".encode()
        await client.write(b"GET /health HTTP/1.1\r\n" + host + host + b"\r\n")
        assert (await client.answer()).status == 400
        assert await client.hung_up()


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: -2",
        "Transfer-Encoding: chunked, gzip",
    ],
)
async def test_a_body_whose_end_is_a_matter_of_opinion_is_refused(framing: str) -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        lines = ("Content-Type: application/json", framing)
        await client.write(head(port, "/aios/rpc", *lines, method="POST") + b"{}")
        assert (await client.answer()).status == 400
        assert await client.hung_up()


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n"],
)
async def test_what_is_not_http_gets_a_small_json_answer(garbage: bytes) -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        await client.write(garbage)
        answer = await client.answer()
        assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
        assert json.loads(answer.body)["error"]["reason"] == "bad_request"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.req("S-15")
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_refused_and_the_client_reads_why(chunked: bool) -> None:
    body = b"x" * 1_500_000
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    async with serve(HttpLimits()) as port, connected(port) as client:
        lines = ("Content-Type: application/json", framing)
        await client.write(head(port, "/aios/rpc", *lines, method="POST") + body)
        assert (await client.answer()).status == 413
        # The body was read to its end, so the connection is still good.
        await client.write(head(port, "/tokens"))
        assert (await client.answer()).status == 200


@pytest.mark.req("S-15")
async def test_a_refused_client_that_asked_before_sending_is_not_told_to_go_on() -> None:
    async with serve(HttpLimits()) as port, connected(port) as client:
        lines = (
            "Content-Length: 9999999",
            "Content-Type: application/json",
            "Expect: 100-continue",
        )
        await client.write(head(port, "/aios/rpc", *lines, method="POST"))
        assert (await client.answer()).status == 413
        assert await client.hung_up()


@pytest.mark.req("S-15")
@pytest.mark.parametrize(
    "limits", [HttpLimits(connections=3), HttpLimits(connections_per_peer=3)], ids=["all", "peer"]
)
async def test_connections_beyond_a_budget_are_told_so_and_others_go_on(limits: HttpLimits) -> None:
    async with serve(limits) as port, AsyncExitStack() as stack:
        inside = [await stack.enter_async_context(connected(port)) for _ in range(3)]
        for client in inside:
            await client.write(head(port, "/tokens"))
            assert (await client.answer()).status == 200
        async with connected(port) as outside:
            await outside.write(head(port, "/tokens"))
            answer = await outside.answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert json.loads(answer.body)["error"]["reason"] == "overloaded"
            assert await outside.hung_up()
        await inside[0].write(head(port, "/tokens"))
        assert (await inside[0].answer()).status == 200
        await inside[1].close()
        async with asyncio.timeout(5):
            status = 0
            while status != 200:
                async with connected(port) as later:
                    await later.write(head(port, "/tokens"))
                    status = (await later.answer()).status


@pytest.mark.req("S-15")
async def test_twice_the_budget_of_connections_is_cut_off_at_once() -> None:
    async with serve(HttpLimits(connections=2)) as port, AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(connected(port))
        client = await stack.enter_async_context(connected(port))
        assert await client.hung_up()


@pytest.mark.req("S-11")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.example", ""])
def test_an_address_that_others_can_reach_needs_tls(host: str) -> None:
    with pytest.raises(ValueError, match="TLS"):
        server_config(guarded(), host=host)
    with pytest.raises(ValueError, match="TLS"):
        server_config(guarded(), host=host, tls_certificate=Path("cert.pem"))
    config = server_config(
        guarded(), host=host, tls_certificate=Path("cert.pem"), tls_key=Path("key.pem")
    )
    assert config.is_ssl


@pytest.mark.req("S-11")
def test_loopback_and_sockets_need_none() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"):
        assert is_loopback(host)
        assert not server_config(guarded(), host=host).is_ssl
    assert server_config(guarded(), host="0.0.0.0", uds=Path("gateway.sock")).uds == "gateway.sock"
