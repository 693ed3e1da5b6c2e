"""A blocking HTTP call that times out, breaks or is refused never runs a task twice."""

from __future__ import annotations

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.sdk import http_invoke

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = tuple[int, Any] | None
"""Status and body; None: the connection breaks before an answer."""


class Gateway(ThreadingHTTPServer):
    """Answers from a script and remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: deque[Answer] = deque()
        self.asked: list[tuple[str, str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Idempotency-Key", "")
        self.server.asked.append((self.command, self.path, key))
        answer = self.server.script.popleft()
        if answer is None:
            self.close_connection = True
            return
        status, body = answer
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(http_invoke, "jittered", lambda attempt, first_ms: 0.0)
    gateway = Gateway()
    thread = threading.Thread(target=gateway.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield gateway
    gateway.shutdown()
    thread.join()
    gateway.server_close()


def task(status: str) -> Answer:
    return 200, {"success": True, "data": {"task_id": "t", "status": status, "result": 1}}


def refusal(status: int, code: str, **metadata: Any) -> Answer:
    error = {"type": "x", "code": code, "message": "m", "metadata": metadata}
    return status, {"success": False, "error": error}


TIMED_OUT = refusal(504, "service_timeout", task_id="t", status_url="/api/v1/tasks/t")


@pytest.mark.req("R157", "R158", "Y16")
async def test_after_a_504_the_task_is_asked_for_and_never_sent_again(gateway: Gateway) -> None:
    gateway.script.extend([TIMED_OUT, task("running"), None, task("running"), task("completed")])
    done = await http_invoke.invoke(gateway.url, "c", {"x": 1}, token="k")
    assert done["status"] == "completed"
    assert [(method, path) for method, path, _ in gateway.asked] == [
        ("POST", "/api/v1/invoke"),
        *[("GET", "/api/v1/tasks/t")] * 4,
    ]


@pytest.mark.req("R158", "Y16")
async def test_a_task_that_never_was_is_sent_again_with_the_same_key(gateway: Gateway) -> None:
    gateway.script.extend([TIMED_OUT, refusal(404, "task_not_found"), task("completed")])
    await http_invoke.invoke(gateway.url, "c", token="k")
    methods, _, keys = zip(*gateway.asked, strict=True)
    assert methods == ("POST", "GET", "POST")
    assert keys[0] == keys[2] != ""


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(gateway: Gateway) -> None:
    gateway.script.extend([None, refusal(503, "agent_service_unavailable"), task("failed")])
    done = await http_invoke.invoke(gateway.url, "c", token="k", idempotency_key="mine")
    assert done["status"] == "failed"
    assert [key for _, _, key in gateway.asked] == ["mine"] * 3


async def test_a_task_that_waits_for_a_person_is_returned(gateway: Gateway) -> None:
    gateway.script.extend([TIMED_OUT, task("input_required")])
    assert (await http_invoke.invoke(gateway.url, "c", token="k"))["status"] == "input_required"


async def test_when_patience_is_over_the_task_is_returned_as_it_is(gateway: Gateway) -> None:
    gateway.script.extend([TIMED_OUT, task("running")])
    assert (await http_invoke.invoke(gateway.url, "c", token="k", patience_ms=0))["status"] == (
        "running"
    )


async def test_a_refusal_is_raised_with_its_code(gateway: Gateway) -> None:
    gateway.script.append(refusal(422, "arguments_rejected", problem="x"))
    with pytest.raises(http_invoke.HttpRefused) as caught:
        await http_invoke.invoke(gateway.url, "c", token="k")
    assert (caught.value.status, caught.value.code) == (422, "arguments_rejected")


async def test_only_http_is_spoken() -> None:
    with pytest.raises(ValueError, match="url: expected http"):
        await http_invoke.invoke("file:///etc/passwd", "c", token="k")
