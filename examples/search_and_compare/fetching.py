"""Pages of shops, fetched as a guest would: few, small, in time, and only where robots may go."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.robotparser import RobotFileParser

import httpx2

if TYPE_CHECKING:
    from types import TracebackType

AGENT = "aiosd-search-and-compare"
USER_AGENT = f"{AGENT}/1 (example of the aiosd SDK)"
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w-]{2,20})", re.IGNORECASE)
_REDIRECTS = (301, 302, 303, 307, 308)


class FetchError(Exception):
    """A page that was not read; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a page may cost. `private`: addresses that are not public ones may be visited too."""

    timeout_s: float = 10.0
    page_bytes: int = 2 * 1024 * 1024
    robots_bytes: int = 512 * 1024
    redirects: int = 3
    private: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of HTML and where it was found in the end."""

    url: str
    html: str


class Visitor:
    """Fetches pages. It is an asynchronous context, and asks each site's robots.txt once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._robots: dict[str, RobotFileParser] = {}
        self._http = httpx2.AsyncClient(
            headers={"user-agent": USER_AGENT, "accept": "text/html, application/xhtml+xml"},
            timeout=limits.timeout_s,
            follow_redirects=False,
            trust_env=False,  # a proxy would see other addresses than those that are checked
        )

    async def __aenter__(self) -> Visitor:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def fetch(self, url: str) -> Page:
        """The page at a URL of http or https. Raises FetchError."""
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                return await self._follow(httpx2.URL(url))
        except TimeoutError:
            raise FetchError(f"no answer within {self._limits.timeout_s:g} s") from None
        except httpx2.InvalidURL:
            raise FetchError("no valid address") from None
        except httpx2.HTTPError as problem:
            raise FetchError(f"not reachable ({type(problem).__name__})") from None

    async def _follow(self, url: httpx2.URL) -> Page:
        for _ in range(self._limits.redirects + 1):
            if not (await self._rules(url)).can_fetch(AGENT, str(url)):
                raise FetchError("its robots.txt forbids it")
            status, headers, body = await self._get(url, self._limits.page_bytes)
            if status in _REDIRECTS and "location" in headers:
                url = url.join(headers["location"])
                continue
            if status != 200:
                raise FetchError(f"HTTP status {status}")
            kind = headers.get("content-type", "text/html")
            if "html" not in kind.lower():
                raise FetchError("no HTML page")
            return Page(str(url), _decode(body, kind))
        raise FetchError("too many redirects")

    async def _rules(self, url: httpx2.URL) -> RobotFileParser:
        """The rules of a site as RFC 9309 has it: none if there are none, none at all on a 5xx."""
        place = url.copy_with(path="/robots.txt", query=None, fragment=None)
        if str(place) not in self._robots:
            rules = RobotFileParser()
            status, _, body = await self._get(place, self._limits.robots_bytes)
            lines = body.decode("utf-8", "replace").splitlines() if status == 200 else []
            rules.parse(["User-agent: *", "Disallow: /"] if status >= 500 else lines)
            self._robots[str(place)] = rules
        return self._robots[str(place)]

    async def _get(self, url: httpx2.URL, most: int) -> tuple[int, httpx2.Headers, bytes]:
        if url.scheme not in ("http", "https") or not url.host:
            raise FetchError("no http or https address")
        await self._check_address(url)
        async with self._http.stream("GET", url) as answer:
            peer = answer.extensions["network_stream"].get_extra_info("server_addr")
            self._check(peer[0])  # a name may mean another address the second time
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > most:
                    raise FetchError(f"larger than {most} bytes")
            return answer.status_code, answer.headers, bytes(body)

    async def _check_address(self, url: httpx2.URL) -> None:
        port = url.port or (443 if url.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise FetchError("unknown host") from None
        for *_, address in found:
            self._check(str(address[0]))

    def _check(self, address: str) -> None:
        if not self._limits.private and not ipaddress.ip_address(address).is_global:
            raise FetchError("not a public address")


def _decode(body: bytes, kind: str) -> str:
    stated = re.search(r"charset\s*=\s*[\"']?([\w-]{2,20})", kind, re.IGNORECASE)
    found = _META_CHARSET.search(body[:2048])
    names = [stated[1]] if stated else []
    names += [found[1].decode()] if found else []
    for name in names:
        try:
            # The web means GBK's superset when it says gb2312.
            known = "gb18030" if name.lower() in ("gb2312", "gbk") else name
            return body.decode(known, "replace")
        except (LookupError, ValueError):
            continue
    return body.decode("utf-8", "replace")
