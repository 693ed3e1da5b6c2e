"""Connecting to the very address that was checked (S-24)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpcore2

from aiosd.adapters.http.address_policy import plain, why_denied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aiosd.adapters.http.address_policy import Address, Allowlist
    from aiosd.adapters.http.webhook_url import WebhookUrl

#: Addresses of one name that are tried.
MOST_ADDRESSES = 4
#: Names that are looked up at once; a look-up cannot be stopped, only waited for no longer.
RESOLVERS = 16


class AddressRefused(Exception):
    """The name leads where no webhook may go."""


class Resolver:
    """Looks names up on threads of its own: a slow one holds up nothing, the end neither."""

    def __init__(self) -> None:
        self._running = 0

    async def addresses(self, host: str, port: int) -> list[str]:
        """Every address of a name, in the system's order. Raises OSError."""
        if self._running >= RESOLVERS:
            raise OSError("too many names are being looked up")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[str]] = loop.create_future()

        def settle(found: list[str], error: Exception | None) -> None:
            self._running -= 1
            if future.done():
                return
            if error is None:
                future.set_result(found)
            else:
                future.set_exception(error)

        def run() -> None:
            found: list[str] = []
            error: Exception | None = None
            try:
                found = list(dict.fromkeys(_look_up(host, port)))
            except (OSError, UnicodeError) as failure:
                error = OSError(str(failure))
            with suppress(RuntimeError):  # the loop is closed, nobody waits any more
                loop.call_soon_threadsafe(settle, found, error)

        self._running += 1
        threading.Thread(target=run, name="webhook-dns", daemon=True).start()
        return await future


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections for one URL: resolve, check every answer, connect, check the peer."""

    def __init__(
        self,
        url: WebhookUrl,
        allow: Allowlist,
        look_up: Callable[[str, int], Any],
    ) -> None:
        self._url = url
        self._allow = allow
        self._look_up = look_up
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A stream to an address that may be reached. Raises AddressRefused, ConnectError."""
        url = self._url
        try:
            found: Sequence[str] = (
                [str(url.address)] if url.address else await self._look_up(url.host, url.port)
            )
        except OSError as error:
            raise httpcore2.ConnectError("the name cannot be resolved") from error
        addresses = [ipaddress.ip_address(one.partition("%")[0]) for one in found]
        for address in addresses:
            self._check(address)
        last: Exception = httpcore2.ConnectError("the name has no address")
        for address in addresses[:MOST_ADDRESSES]:
            try:
                stream = await self._inner.connect_tcp(str(address), url.port, timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
                continue
            peer = stream.get_extra_info("server_addr")
            if not peer or plain(ipaddress.ip_address(peer[0])) != plain(address):
                await stream.aclose()
                raise AddressRefused("the connection leads to another address")
            return stream
        raise last

    async def sleep(self, seconds: float) -> None:
        """Wait, for the pool."""
        await asyncio.sleep(seconds)

    def _check(self, address: Address) -> None:
        url = self._url
        if self._allow.covers(address) or self._allow.names(url.host, url.port):
            return
        why = why_denied(address)
        if not why and url.scheme == "http":
            why = "http is for targets in webhook_allow only"
        if why:
            raise AddressRefused(f"the address {address} is not allowed: {why}")
