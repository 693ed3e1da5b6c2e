"""A gateway without a daemon, and one that is stopping: 503 in this wire's envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.settings import load_settings
from gateway import daemon_channel
from gateway.app import create_app, http_limits
from gateway.context import GatewayContext
from gateway.daemon_channel import DaemonChannel
from gateway.openapi.routes import ROUTES
from tests.support.http import http_client
from tests.support.live_server import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx


@pytest.fixture
async def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayContext]:
    # How long it waits for a daemon that comes back is no matter here.
    monkeypatch.setattr(daemon_channel, "READY_TIMEOUT_S", 0.05)
    socket = tmp_path / "nobody.sock"
    flags = {"state_dir": str(tmp_path), "socket": str(socket), "http": "127.0.0.1:0"}
    context = GatewayContext(
        load_settings(flags, {"HOME": str(tmp_path)}), DaemonChannel(f"unix:{socket}")
    )
    yield context
    await context.daemon.close()


@pytest.fixture
async def http(context: GatewayContext) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(create_app(context), http_limits(context)) as port,
        http_client(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": "Bearer somebody"}
        ) as client,
    ):
        yield client


def check_unavailable(answer: httpx.Response, reason: str) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    body = answer.json()
    assert body["success"] is False
    error = body["error"]
    assert (error["code"], error["type"]) == ("agent_service_unavailable", "api_error")
    assert error["metadata"]["reason"] == reason
    assert error["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_without_a_daemon_every_call_asks_to_come_back(
    http: httpx.AsyncClient, route: object
) -> None:
    method, path = route.method, route.path.replace("{", "").replace("}", "")  # type: ignore[attr-defined]
    answer = await http.request(method, path, json={} if method == "POST" else None)
    check_unavailable(answer, "daemon_unavailable")


async def test_a_gateway_that_stops_asks_to_come_back(
    http: httpx.AsyncClient, context: GatewayContext
) -> None:
    context.stopping.set()
    check_unavailable(await http.get("/api/v1/tasks"), "stopping")
