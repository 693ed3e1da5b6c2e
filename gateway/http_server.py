"""The HTTP server below the guards: uvicorn, with the bounds that it lacks.

uvicorn waits without end and with any number of bytes for the rest of a request's head, counts
connections in all but not by peer, and answers what it refuses itself in plain text.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.limits import HttpLimits, peer_of
from gateway.refusals import (
    CLOSE,
    DEFAULT_HEADERS,
    OVERLOADED,
    SECURITY_HEADERS,
    Refusal,
    render_refusal,
)
from gateway.strict_json import dumps

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from starlette.types import ASGIApp

_HEAD_TOO_LATE: Final = Refusal(408, "head_timeout", "the headers did not arrive in time")
_MALFORMED: Final = Refusal(400, "bad_request", "this is not an HTTP request within our limits")
_SHUTDOWN_SECONDS: Final = 5


class GatewayConfig(uvicorn.Config):
    """uvicorn's settings and our limits."""

    def __init__(self, app: ASGIApp, limits: HttpLimits, **settings: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **settings)
        self.limits = limits


class BoundedProtocol(HttpToolsProtocol):
    """One HTTP connection with a deadline and a size for each head and a place in two budgets."""

    config: GatewayConfig
    _head_timer: asyncio.TimerHandle | None = None
    _is_in_head = False
    _head_bytes = 0
    """What has arrived of a head that is not complete; never less than that."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first head; turn away what is over a budget."""
        super().connection_made(transport)
        limits = self.config.limits
        peer = peer_of(self.client)
        of_peer = sum(peer_of(getattr(other, "client", None)) == peer for other in self.connections)
        if len(self.connections) > 2 * limits.connections:
            # Too many even to be told so.
            transport.abort()
            return
        if len(self.connections) > limits.connections or (
            self.client is not None and of_peer > limits.connections_per_peer
        ):
            self.app = OVERLOADED
            self.ws_protocol_class = None
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        """Read on, and no further in a head than its limit."""
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            limits = self.config.limits
            self._head_bytes += len(data)
            if self._head_bytes > limits.request_line_bytes + limits.header_bytes:
                self._refuse(_MALFORMED)

    def on_message_begin(self) -> None:
        """Start the deadline of a head with its first byte."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._start_head_timer()

    def on_headers_complete(self) -> None:
        """End the deadline, and take the request if it names one host.

        The parser leaves it to us that a request of HTTP/1.1 has one Host (RFC 9112, 3.2).
        """
        self._is_in_head = False
        self._stop_head_timer()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request names one host")
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser could not read."""
        self._refuse(_MALFORMED)

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(
            self.config.limits.header_seconds, self._head_is_too_late
        )

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_too_late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self._is_in_head:
            self._refuse(_HEAD_TOO_LATE)
        else:
            self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer in place of the application, and close."""
        # There is no cycle before the first request, whatever its type says.
        if getattr(self.cycle, "response_complete", True):
            body = dumps(render_refusal(refusal, "")).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *SECURITY_HEADERS,
                *DEFAULT_HEADERS,
                CLOSE,
            ]
            lines = b"".join(b"%s: %s\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[refusal.status] + lines + b"\r\n" + body)
        # Else an answer is on its way, and nothing may be written into it.
        self.transport.close()


def server_config(
    app: ASGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 9527,
    uds: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    limits: HttpLimits | None = None,
    graceful_shutdown_seconds: int = _SHUTDOWN_SECONDS,
) -> GatewayConfig:
    """Settings for `uvicorn.Server`; port 0 takes any free port.

    Logging is left to the process. X-Forwarded headers are not believed: whoever reaches the
    socket could write them. Raises ValueError for an address that other machines can reach
    without TLS (S-11).
    """
    limits = limits or HttpLimits()
    if uds is None and not is_loopback(host) and (tls_certificate is None or tls_key is None):
        raise ValueError(f"http: {host} is reachable from outside and needs a TLS certificate")
    return GatewayConfig(
        app,
        limits,
        host=host,
        port=port,
        uds=str(uds) if uds else None,
        ssl_certfile=tls_certificate,
        ssl_keyfile=tls_key,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=graceful_shutdown_seconds,
        ws_max_size=limits.body_bytes,
        ws_per_message_deflate=False,
    )


def is_loopback(host: str) -> bool:
    """Whether a listener on this address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
