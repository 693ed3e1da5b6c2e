"""Shops on loopback that a test fills with pages: plain HTTP, nothing of ours."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType


def product_page(*products: Mapping[str, Any], site: str = "", language: str = "zh") -> bytes:
    """A page that describes products as JSON-LD."""
    graph: list[Mapping[str, Any]] = [{"@type": "WebSite", "name": site}] if site else []
    graph += [{"@type": "Product", **product} for product in products]
    text = json.dumps({"@context": "https://schema.org", "@graph": graph}, ensure_ascii=False)
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f'<script type="application/ld+json">{text}</script></head><body></body></html>'
    ).encode()


class Shop:
    """One shop; `pages` by path with query. It answers while `opened` is set."""

    def __init__(
        self,
        pages: Mapping[str, bytes],
        *,
        content_type: str = "text/html; charset=utf-8",
        statuses: Mapping[str, int] | None = None,
        locations: Mapping[str, str] | None = None,
    ) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.opened = asyncio.Event()
        self.opened.set()
        self._content_type = content_type
        self._statuses = statuses or {}
        self._locations = locations or {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """Its front page."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def __aenter__(self) -> Shop:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        with suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            self.asked.append(path)
            self.agents |= {
                line.partition(":")[2].strip()
                for line in head.split("\r\n")
                if line.lower().startswith("user-agent:")
            }
            body = self.pages.get(path, b"")
            await self.opened.wait()
            status = self._statuses.get(path, 200 if path in self.pages else 404)
            place = f"Location: {self._locations[path]}\r\n" if path in self._locations else ""
            writer.write(
                f"HTTP/1.1 {status} X\r\nContent-Type: {self._content_type}\r\n{place}"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        self._open.discard(task)
        writer.close()
