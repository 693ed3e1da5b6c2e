"""GET /health: public, and true. It asks the daemon each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from aiosd import __version__

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from gateway.context import GatewayContext


def routes(context: GatewayContext) -> list[BaseRoute]:
    """The route of the health check."""

    async def health(request: Request) -> Response:
        stopping = context.stopping.is_set()
        is_serving = not stopping and await context.daemon.is_serving()
        status = "ok" if is_serving else "stopping" if stopping else "unavailable"
        return JSONResponse(
            {
                "status": status,
                "version": __version__,
                "daemon": "serving" if is_serving else "not_serving",
            },
            status_code=200 if is_serving else 503,
        )

    return [Route("/health", health, methods=["GET"])]
