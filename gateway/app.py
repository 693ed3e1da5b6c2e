"""The HTTP application: the routes of every wire behind one set of guards.

A wire is a package with a function `routes(context)`; it is added to `_WIRES` and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette

from gateway import health, metrics
from gateway.a2a import endpoint as a2a
from gateway.a2a.rest import render_refusal
from gateway.a2a.words import BASE_PATH as A2A_PATH
from gateway.aios import endpoint as aios
from gateway.guard_policy import GuardPolicy
from gateway.guards import Guards
from gateway.limits import HttpLimits
from gateway.openapi import endpoint as openapi
from gateway.openapi.errors import render_refusal as render_openapi_refusal
from gateway.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.context import GatewayContext

_WIRES: Final[tuple[Callable[[GatewayContext], list[BaseRoute]], ...]] = (
    health.routes,
    metrics.routes,
    aios.routes,
    a2a.routes,
    openapi.routes,
)
_DRAINING: Final = Refusal(
    503, "stopping", "the server is stopping; ask again", ((b"retry-after", b"1"),)
).closing()


def create_app(context: GatewayContext) -> ASGIApp:
    """Compose the application. The channel of `context` stays its caller's to close."""
    inner = Starlette(routes=[route for routes in _WIRES for route in routes(context)])
    render = {A2A_PATH: render_refusal, openapi.BASE_PATH: render_openapi_refusal}
    return Guards(_Draining(inner, context), guard_policy(context), render=render)


def http_limits(context: GatewayContext) -> HttpLimits:
    """The bounds of requests and connections."""
    settings = context.settings
    return HttpLimits(
        body_bytes=settings.max_message_bytes,
        auth_failures_per_minute=settings.http_auth_failures_per_minute,
    )


def guard_policy(context: GatewayContext) -> GuardPolicy:
    """Who may call from where."""
    settings = context.settings
    return GuardPolicy(
        hosts=frozenset(settings.http_allowed_hosts),
        origins=frozenset(settings.http_allowed_origins),
        media_types={A2A_PATH: None},
        limits=http_limits(context),
    )


class _Draining:
    """Answers 503 to requests that come while the process stops; /health tells for itself."""

    def __init__(self, app: ASGIApp, context: GatewayContext) -> None:
        self._app = app
        self._stopping = context.stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_new = scope["type"] == "http" and scope["path"] != "/health"
        app = _DRAINING if is_new and self._stopping.is_set() else self._app
        await app(scope, receive, send)
