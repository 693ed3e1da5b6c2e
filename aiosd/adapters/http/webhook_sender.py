"""Posting to strangers: one connection an attempt, pinned, bounded in time and in size (S-26)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import httpcore2

from aiosd import __version__
from aiosd.adapters.http.address_policy import Allowlist
from aiosd.adapters.http.pinned import AddressRefused, PinnedBackend, Resolver
from aiosd.adapters.http.webhook_url import read_url
from aiosd.application.errors import WebhookUrlRefused
from aiosd.domain.webhook import LONGEST_ERROR, Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.trust_ports import Target

LARGEST_READ = 4096
#: A body is read for its words of explanation only, so for no longer than this.
READ_S = 2.0


class HttpWebhookSender:
    """The port WebhookSender over httpcore2: no redirects, proxies, cookies or kept connections."""

    def __init__(
        self,
        allow: tuple[str, ...],
        *,
        connect_timeout_ms: int = 5_000,
        timeout_ms: int = 15_000,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._allow = Allowlist(allow)
        self._connect_s = connect_timeout_ms / 1000
        self._total_s = timeout_ms / 1000
        self._ssl = ssl_context or ssl.create_default_context()
        self.resolver = Resolver()

    def check(self, url: str) -> Target:
        """What a URL means; raises WebhookUrlRefused."""
        return read_url(url, self._allow).target

    async def send(self, url: str, headers: Sequence[tuple[str, str]], content: bytes) -> Answer:
        """One attempt."""
        try:
            async with asyncio.timeout(self._total_s):
                return await self._send(url, headers, content)
        except TimeoutError:
            return Answer(error=f"no answer within {self._total_s:g} s")
        except (WebhookUrlRefused, AddressRefused) as refusal:
            return Answer(error=str(refusal), refused=True)
        except httpcore2.ConnectTimeout:
            return Answer(error=f"no connection within {self._connect_s:g} s")
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as why:
            return Answer(error=_sentence(why))
        except (OSError, ValueError) as why:
            return Answer(error=_sentence(why))

    async def _send(self, url: str, headers: Sequence[tuple[str, str]], content: bytes) -> Answer:
        checked = read_url(url, self._allow)
        backend = PinnedBackend(checked, self._allow, self._look_up)
        sent = [("User-Agent", f"aiosd/{__version__}"), ("Accept", "*/*"), *headers]
        host = checked.target.endpoint.partition("://")[2]
        default = ":443" if checked.scheme == "https" else ":80"
        wire = [
            (b"Host", host.removesuffix(default).encode()),
            (b"Connection", b"close"),
            (b"Content-Length", str(len(content)).encode()),
            *((name.encode("ascii"), value.encode("latin-1")) for name, value in sent),
        ]
        async with (
            httpcore2.AsyncConnectionPool(
                ssl_context=self._ssl, max_keepalive_connections=0, network_backend=backend
            ) as pool,
            pool.stream(
                b"POST",
                url.encode("ascii"),
                headers=wire,
                content=content,
                extensions={"timeout": {"connect": self._connect_s}},
            ) as response,
        ):
            fields = {name.lower(): value for name, value in response.headers}
            if 200 <= response.status < 300:
                return Answer(response.status)
            said = await self._beginning(response)
            error = f"HTTP {response.status}" + (f": {said}" if said else "")
            if 300 <= response.status < 400:
                error = f"HTTP {response.status}: redirects are not followed"
            return Answer(
                response.status,
                error[:LONGEST_ERROR],
                _retry_after(fields.get(b"retry-after", b"").decode("latin-1")),
            )

    async def _look_up(self, host: str, port: int) -> list[str]:
        try:
            async with asyncio.timeout(self._connect_s):
                return await self.resolver.addresses(host, port)
        except TimeoutError:
            raise httpcore2.ConnectError("the name was not resolved in time") from None

    async def _beginning(self, response: httpcore2.Response) -> str:
        """What the receiver says, as one line; a slow or endless body costs READ_S at most."""
        read = b""
        with contextlib.suppress(TimeoutError, httpcore2.NetworkError, httpcore2.ProtocolError):
            async with asyncio.timeout(READ_S):
                async for chunk in response.aiter_stream():
                    read += chunk[: LARGEST_READ - len(read)]
                    if len(read) >= LARGEST_READ:
                        break
        return " ".join(read.decode("utf-8", "replace").split())[:LONGEST_ERROR]


def _retry_after(value: str) -> int:
    """Milliseconds that a Retry-After header asks for; 0 for none and for nonsense."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(int(value[:9]), 1_000_000) * 1000
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round((moment - datetime.now(UTC)).total_seconds() * 1000))


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:LONGEST_ERROR]
