"""The example against shops of every sort, fetched for real."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from examples.search_and_compare.fetching import USER_AGENT, FetchError, Limits, Visitor
from examples.search_and_compare.site import Found, display_name, search
from tests.support.shops import Shop, product_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EARPHONES = {"name": "Wireless earphones", "offers": {"@type": "Offer", "price": "20.50"}}
QUICK = Limits(timeout_s=5.0, page_bytes=100_000, private=True)


async def find(site: str, query: str = "earphones", limits: Limits = QUICK) -> Found:
    async with Visitor(limits) as visitor:
        return await search(site, query, visitor.fetch)


@pytest.fixture
async def shops() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def test_a_shop_is_visited_under_our_own_name(shops: AsyncExitStack) -> None:
    shop = await shops.enter_async_context(Shop({"/": product_page(EARPHONES, site="Shop")}))
    found = await find(shop.url)
    assert (found.name, found.problem) == ("Shop", "")
    assert [str(offer.price) for offer in found.offers] == ["20.50"]
    assert shop.asked == ["/robots.txt", "/"]
    assert shop.agents == {USER_AGENT}


async def test_the_query_goes_where_the_address_says(shops: AsyncExitStack) -> None:
    page = product_page(EARPHONES | {"name": "无线 耳机"})
    path = "/s?q=%E6%97%A0%E7%BA%BF%20%E8%80%B3%E6%9C%BA"
    shop = await shops.enter_async_context(Shop({path: page}))
    assert len((await find(f"{shop.url}s?q={{query}}", "无线 耳机")).offers) == 1


async def test_a_shop_that_can_be_searched_is(shops: AsyncExitStack) -> None:
    pages: dict[str, bytes] = {}
    shop = await shops.enter_async_context(Shop(pages))
    action = {"@type": "SearchAction", "target": f"{shop.url}find?w={{search_term_string}}"}
    listed = {
        "@type": "ItemList",
        "itemListElement": [{"@type": "ListItem", "url": f"{shop.url}1"}],
    }
    for path, item in (
        ("/", {"@type": "WebSite", "name": "Shop", "potentialAction": action}),
        ("/find?w=earphones", listed),
    ):
        pages[path] = f'<script type="application/ld+json">{json.dumps(item)}</script>'.encode()
    pages["/1"] = product_page(EARPHONES)
    assert [offer.url for offer in (await find(shop.url)).offers] == [f"{shop.url}1"]
    assert shop.asked == ["/robots.txt", "/", "/find?w=earphones", "/1"]


@pytest.mark.parametrize(
    ("pages", "statuses", "problem"),
    [
        ({}, {}, "HTTP status 404"),
        ({"/": b"<p>nothing"}, {}, "no product with a price matches"),
        ({"/": product_page(EARPHONES | {"name": "Cable"})}, {}, "no product with a price matches"),
        ({"/": b"x" * 200_000}, {}, "larger than 100000 bytes"),
        ({"/": b"<script type='application/ld+json'>{</script>"}, {}, "no product with a price"),
        ({"/robots.txt": b"User-agent: *\nDisallow: /", "/": b""}, {}, "its robots.txt forbids it"),
        ({"/robots.txt": b"", "/": b""}, {"/robots.txt": 503}, "its robots.txt forbids it"),
    ],
    ids=["missing", "empty", "other", "huge", "broken", "forbidden", "robots away"],
)
async def test_a_shop_that_gives_nothing_says_why(
    shops: AsyncExitStack, pages: dict[str, bytes], statuses: dict[str, int], problem: str
) -> None:
    shop = await shops.enter_async_context(Shop(pages, statuses=statuses))
    found = await find(shop.url)
    assert found.offers == []
    assert found.problem.startswith(problem)


async def test_a_shop_that_does_not_answer_is_left(shops: AsyncExitStack) -> None:
    shop = await shops.enter_async_context(Shop({"/": product_page(EARPHONES)}))
    shop.opened.clear()
    found = await find(shop.url, limits=Limits(timeout_s=0.2, private=True))
    assert found.problem == "no answer within 0.2 s"


@pytest.mark.parametrize(
    "site", ["http://", "ftp://example.org/", "http://[", "no host", "http://127.0.0.1:1/"]
)
async def test_an_address_that_is_none_says_so(site: str) -> None:
    found = await find(site)
    assert re.match("no valid|no http|unknown host|not reachable", found.problem), found.problem
    assert display_name(site)


async def test_private_addresses_are_visited_only_when_allowed(shops: AsyncExitStack) -> None:
    shop = await shops.enter_async_context(Shop({"/": product_page(EARPHONES)}))
    found = await find(shop.url, limits=Limits())
    assert (found.problem, shop.asked) == ("not a public address", [])


async def test_redirects_are_few_and_obey_robots(shops: AsyncExitStack) -> None:
    shop = await shops.enter_async_context(
        Shop(
            {
                "/": b"",
                "/a": product_page(EARPHONES),
                "/loop": b"",
                "/to-secret": b"",
                "/out": b"",
                "/robots.txt": b"User-agent: *\nDisallow: /secret",
            },
            statuses={"/": 302, "/loop": 302, "/to-secret": 301, "/out": 302},
            locations={"/": "/a", "/loop": "/loop", "/to-secret": "/secret", "/out": "file:///x"},
        )
    )
    async with Visitor(QUICK) as visitor:
        assert (await visitor.fetch(shop.url)).url == f"{shop.url}a"
        for path, problem in (
            ("loop", "too many redirects"),
            ("to-secret", "its robots.txt forbids it"),
            ("out", "no http or https address"),
        ):
            with pytest.raises(FetchError, match=problem):
                await visitor.fetch(shop.url + path)
    assert "/secret" not in shop.asked
