"""A small application behind the guards, and short ways to call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route

from gateway.guards import GuardPolicy, Guards, reject_unauthenticated
from tests.support.asgi_probe import TOKEN, Answer, call, headers_of, scope_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

JSON = ("content-type", "application/json")


async def echo(request: Request) -> Response:
    body = await request.body()
    return JSONResponse({"bearer": request.state.bearer, "length": len(body)})


async def stream(_: Request) -> Response:
    async def frames() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")


async def only_good_tokens(request: Request) -> Any:
    if request.state.bearer != TOKEN:
        return reject_unauthenticated(request.scope)
    return PlainTextResponse("welcome")


async def crash(_: Request) -> Response:
    raise RuntimeError("secret=hunter2")


async def careless(_: Request) -> Response:
    headers = {
        "access-control-allow-origin": "*",
        "referrer-policy": "unsafe-url",
        "cache-control": "max-age=60",
        "server": "leaky/1.0",
    }
    return PlainTextResponse("careless", headers=headers)


ROUTES = [
    Route("/", echo),
    Route("/health", echo),
    Route("/.well-known/agent-card.json", echo),
    Route("/static/app.js", echo),
    Route("/aios/rpc", echo, methods=["POST"]),
    Route("/a2a/message:send", echo, methods=["POST"]),
    Route("/a2ax", echo, methods=["POST"]),
    Route("/big", echo, methods=["POST"]),
    Route("/aios/events", stream),
    Route("/tokens", only_good_tokens),
    Route("/crash", crash),
    Route("/careless", careless),
]


def guarded(policy: GuardPolicy | None = None, **options: Any) -> Guards:
    return Guards(Starlette(routes=ROUTES), policy or GuardPolicy(), **options)


async def get(path: str, *extra: tuple[str, str], app: Guards | None = None, **how: Any) -> Answer:
    identity = {key: how.pop(key) for key in ("host", "token") if key in how}
    headers = headers_of(*extra, **identity)
    return await call(app or guarded(), scope_of(path, method="GET", headers=headers, **how))


async def post(
    path: str, body: bytes, *extra: tuple[str, str], app: Guards | None = None
) -> Answer:
    headers = headers_of(*extra, ("content-length", str(len(body))))
    return await call(app or guarded(), scope_of(path, headers=headers), [body])
