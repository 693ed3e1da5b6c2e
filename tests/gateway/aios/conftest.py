"""A gateway on a free port in front of the reference daemon."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from aiosd.settings import Settings, load_settings
from gateway.__main__ import GatewayServer
from gateway.a2a.grpc_binding import A2aGrpcServer
from gateway.app import create_app, http_limits
from gateway.context import GatewayContext
from gateway.daemon_channel import DaemonChannel
from gateway.http_server import server_config
from tests.gateway.aios.reference_daemon import TOKEN, ReferenceDaemon
from tests.support.http import http_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@dataclass
class Gateway:
    """A running gateway and a client of it."""

    client: httpx.AsyncClient
    context: GatewayContext
    ids: count[int] = field(default_factory=lambda: count(1))

    async def post(self, method: str, params: Any = None, **headers: str) -> httpx.Response:
        """One call; the whole HTTP answer."""
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": next(self.ids), "method": method}
        if params is not None:
            body["params"] = params
        return await self.client.post("/aios/rpc", json=body, headers=headers)

    async def result(self, method: str, params: Any = None, **headers: str) -> Any:
        """The result of one call."""
        answer = (await self.post(method, params, **headers)).json()
        assert "error" not in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Any = None, **headers: str) -> Any:
        """The error of one call."""
        answer = (await self.post(method, params, **headers)).json()
        assert "result" not in answer, answer
        return answer["error"]


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[ReferenceDaemon]:
    daemon = ReferenceDaemon(tmp_path / "aiosd.sock")
    await daemon.start()
    yield daemon
    await daemon.stop()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    flags = {
        "state_dir": str(tmp_path),
        "socket": str(tmp_path / "aiosd.sock"),
        "http": "127.0.0.1:0",
        "a2a_grpc": "127.0.0.1:0",
        "drain_grace_ms": 2000,
    }
    return load_settings(flags, {"HOME": str(tmp_path)})


@pytest.fixture
async def gateway(settings: Settings, daemon: ReferenceDaemon) -> AsyncIterator[Gateway]:
    context = GatewayContext(settings, DaemonChannel(f"unix:{settings.socket}"))
    config = server_config(
        create_app(context), port=0, limits=http_limits(context), graceful_shutdown_seconds=2
    )
    a2a_grpc = A2aGrpcServer(context)
    context.a2a_grpc = await a2a_grpc.start()
    server = GatewayServer(config, context, a2a_grpc)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    async with http_client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {TOKEN}"},
        timeout=10,
    ) as client:
        yield Gateway(client, context)
    await server.shutdown()
    await context.daemon.close()
    await asyncio.sleep(0)
