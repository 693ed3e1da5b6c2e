"""The two shops of the document's example on loopback, and the example that searches them."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.shops import Shop, product_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[2]


def offer(price: str) -> dict[str, Any]:
    return {"@type": "Offer", "price": price, "priceCurrency": "CNY", "url": "/item"}


JD = product_page(
    {"name": "无线耳机 一号", "mpn": "123", "offers": offer("299")},
    {"name": "无线耳机 二号", "mpn": "456", "offers": offer("599")},
    site="京东",
)
TAOBAO = """<!doctype html><meta charset="gbk">
<div itemscope itemtype="https://schema.org/WebSite"><meta itemprop="name" content="淘宝"></div>
<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">耳机 无线耳机</b>
  <meta itemprop="mpn" content="123"><div itemprop="offers" itemscope
  itemtype="https://schema.org/Offer"><meta itemprop="priceCurrency" content="CNY">
  <span itemprop="price" content="289">289元</span></div></div>""".encode("gbk")


class Market(NamedTuple):
    jd: Shop
    taobao: Shop


@asynccontextmanager
async def open_market(socket: Path) -> AsyncIterator[Market]:
    """Both shops, and the provider as a process of its own beside the daemon of this socket."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.search_and_compare", "--private"),
        cwd=ROOT,
        env={"AIOSD_SOCKET": str(socket)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with AsyncExitStack() as opened:
        try:
            async with asyncio.timeout(20):
                assert json.loads(await process.stdout.readline())["ready"] is True
            yield Market(
                await opened.enter_async_context(Shop({"/": JD})),
                await opened.enter_async_context(Shop({"/": TAOBAO}, content_type="text/html")),
            )
        finally:
            process.terminate()
            async with asyncio.timeout(15):
                await process.wait()
