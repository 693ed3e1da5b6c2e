from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from gateway import refusals
from gateway.guards import GuardPolicy, Guards
from tests.support.asgi_probe import TOKEN, call, headers_of, scope_of
from tests.support.guarded_app import get, guarded

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.refusals import Refusal


@pytest.mark.req("S-14")
@pytest.mark.parametrize(
    ("path", "how", "status"),
    [
        ("/health", {}, 200),
        ("/aios/events", {}, 200),
        ("/nowhere", {}, 404),
        ("/aios/rpc", {}, 405),
        ("/aios/events", {"token": None}, 401),
        ("/aios/events", {"host": "evil.test"}, 421),
        ("/crash", {}, 500),
        ("/careless", {}, 200),
    ],
)
async def test_every_answer_has_the_security_headers(
    path: str, how: dict[str, Any], status: int
) -> None:
    answer = await get(path, ("x-request-id", "req.7"), **how)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-request-id"] == "req.7"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == ("max-age=60" if path == "/careless" else "no-store")
    assert not {"server", "access-control-allow-origin"} & set(answer.headers)


@pytest.mark.parametrize("request_id", ["", "a b", "x" * 65, "a\xe9"])
async def test_a_request_id_that_is_unfit_for_a_log_is_replaced(request_id: str) -> None:
    answer = await get("/nowhere", ("x-request-id", request_id))
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
    assert len(answer.headers["x-request-id"]) == 32


async def test_unknown_paths_and_methods_are_small_json() -> None:
    missing = await get("/nowhere")
    assert (missing.status, missing.reason) == (404, "not_found")
    assert missing.headers["content-type"] == "application/json"
    assert int(missing.headers["content-length"]) == len(missing.body) < 250
    wrong = await get("/aios/rpc")
    assert (wrong.status, wrong.reason) == (405, "method_not_allowed")
    assert wrong.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "refusal", [refusals.NOT_ACCEPTABLE, refusals.NOT_FOUND, refusals.METHOD_NOT_ALLOWED]
)
async def test_a_route_can_return_a_refusal(refusal: Refusal) -> None:
    async def refuse(_: Request) -> Any:
        return refusal

    app = Guards(Starlette(routes=[Route("/x", refuse)]), GuardPolicy())
    answer = await get("/x", app=app)
    assert (answer.status, answer.reason) == (refusal.status, refusal.reason)


async def test_a_wire_can_give_refusals_its_own_shape() -> None:
    def envelope(refusal: Refusal, request_id: str) -> dict[str, Any]:
        return {"success": False, "error": {"code": refusal.reason, "request_id": request_id}}

    app = guarded(render={"/api/v1": envelope})
    answer = await get("/api/v1/tasks", ("aios-request-id", "r1"), app=app, token=None)
    assert answer.json() == {
        "success": False,
        "error": {"code": "unauthenticated", "request_id": "r1"},
    }
    assert (await get("/api/v1/nothing", app=app)).json()["success"] is False
    assert "success" not in (await get("/nothing", app=app)).json()


@pytest.mark.req("S-17")
async def test_a_crash_says_nothing_but_its_request_id(caplog: pytest.LogCaptureFixture) -> None:
    async def bare(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("secret=hunter2")

    # A framework that answers a crash itself does so in plain text, and then raises again.
    for app, path in ((guarded(), "/crash"), (Guards(bare, GuardPolicy()), "/x")):
        answer = await get(path, ("x-request-id", "r2"), app=app)
        assert (answer.status, answer.reason) == (500, "internal")
        assert answer.json()["error"]["request_id"] == "r2"
        assert b"hunter2" not in answer.body
    assert [record.message for record in caplog.records] == ["http.failed"] * 2


async def test_a_crash_after_the_answer_began_is_not_answered_twice() -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("late")

    with pytest.raises(RuntimeError, match="late"):
        await get("/x", app=Guards(half, GuardPolicy()))


@pytest.mark.req("S-12", "S-13")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (headers_of(host="evil.test"), 421),
        (headers_of(("origin", "http://evil.test")), 403),
        (headers_of(token=None), 401),
    ],
    ids=["host", "origin", "token"],
)
async def test_web_sockets_pass_the_same_guards(
    headers: list[tuple[bytes, bytes]], status: int
) -> None:
    scope = scope_of("/aios/ws", kind="websocket", scheme="ws", headers=headers)
    answer = await call(guarded(), scope)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_web_socket_that_passes_reaches_its_route() -> None:
    async def accept(scope: Any, receive: Any, send: Any) -> None:
        assert scope["state"]["bearer"] == TOKEN
        await send({"type": "websocket.accept"})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = headers_of(("origin", "http://127.0.0.1:9527"))
    scope = scope_of("/aios/ws", kind="websocket", scheme="ws", headers=headers)
    await Guards(accept, GuardPolicy())(scope, None, send)
    assert sent == [{"type": "websocket.accept"}]


async def test_a_server_without_denial_responses_closes_the_web_socket() -> None:
    scope = scope_of("/aios/ws", kind="websocket", scheme="ws", headers=headers_of(token=None))
    del scope["extensions"]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await guarded()(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
