"""GET /metrics: what the gateway does, in the text format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from aiosd.api.v1 import system_service_pb2
from gateway.context import GatewayContext, caller_of
from gateway.daemon_channel import DaemonError
from gateway.guards import reject_unauthenticated
from gateway.measures import REGISTRY

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

_DAEMON_UP: Final = Gauge(
    "aios_gateway_daemon_up", "Whether the daemon answered just now.", registry=REGISTRY
)
_QUEUED: Final = Gauge("aiosd_tasks_queued", "Tasks that wait to start.", registry=REGISTRY)
_WORKING: Final = Gauge("aiosd_tasks_working", "Tasks that are working.", registry=REGISTRY)


def routes(context: GatewayContext) -> list[BaseRoute]:
    """The route of the metrics."""

    async def metrics(request: Request) -> ASGIApp:
        try:
            system = await context.daemon.call(
                context.daemon.system.GetSystemInfo,
                system_service_pb2.GetSystemInfoRequest(),
                caller_of(request),
            )
        except DaemonError as error:
            if error.is_unauthenticated:
                return reject_unauthenticated(request.scope)
            _DAEMON_UP.set(0)
        else:
            _DAEMON_UP.set(1)
            _QUEUED.set(system.queued_tasks)
            _WORKING.set(system.working_tasks)
        return Response(generate_latest(REGISTRY), headers={"content-type": CONTENT_TYPE_LATEST})

    return [Route("/metrics", metrics, methods=["GET"])]
