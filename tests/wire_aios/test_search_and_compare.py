"""The example over the wire where the document's conversation does not go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.market import Market, open_market
from tests.support.shops import Shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.stack import Stack
    from tests.wire_aios.client import AiosClient

CAPABILITY = "compat.browser.search_and_compare"


@pytest.fixture
async def market(shared_stack: Stack) -> AsyncIterator[Market]:
    async with open_market(shared_stack.socket) as opened:
        yield opened


async def start(aios: AiosClient, query: str, *sites: str) -> str:
    arguments: dict[str, Any] = {"query": query, "sites": list(sites)}
    return await aios.create(capability_id=CAPABILITY, arguments=arguments)


async def test_a_shop_that_fails_is_reported_and_the_others_are_compared(
    aios: AiosClient, market: Market
) -> None:
    async with Shop({"/robots.txt": b"User-agent: *\nDisallow: /"}) as forbidden:
        closed = forbidden.url
        sites = (market.taobao.url, closed, "http://127.0.0.1:1/")
        task = await aios.ended(await start(aios, "无线耳机", *sites))
    assert task["status"] == "completed"
    result = task["result"]
    assert list(result["sites"]) == [market.taobao.url]
    assert result["sites"][market.taobao.url]["amount"] == "289"
    assert result["failed"][closed] == "its robots.txt forbids it"
    assert result["failed"]["http://127.0.0.1:1/"].startswith("not reachable")
    told = await aios.events(task["task_id"])
    warnings = [event for event in told if event.data.get("level") == "WARN"]
    assert len(warnings) == 2
    assert "task.input_required" not in {event.event for event in told}


async def test_without_any_price_it_fails_and_says_why(aios: AiosClient, market: Market) -> None:
    task = await aios.ended(await start(aios, "bicycle", market.jd.url, market.taobao.url))
    assert task["status"] == "failed"
    error = task["error"]
    assert error["message"] == "no site gave a price that can be compared"
    assert set(error["data"]["sites"].values()) == {"no product with a price matches"}


async def test_what_was_not_offered_cannot_be_chosen(aios: AiosClient, market: Market) -> None:
    task_id = await start(aios, "无线耳机", market.jd.url, market.taobao.url)
    await aios.until(task_id, "input_required")
    error = await aios.refused("aios/task.input", task_id=task_id, input={"selected_product": "x"})
    assert error.brief == (-32108, "Invalid input")
    await aios.call("aios/task.input", task_id=task_id, input={"choice": "product-456"})
    result = (await aios.ended(task_id))["result"]
    assert list(result["sites"]) == [market.jd.url]
    assert result["failed"] == {market.taobao.url: "没有该商品"}


@pytest.mark.req("R014")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "x", "sites": []},
        {"query": " ", "sites": ["a"]},
        {"query": "x", "sites": "a"},
        {"query": "x", "sites": ["a"], "more": 1},
    ],
    ids=str,
)
async def test_arguments_that_do_not_fit_make_no_task(
    aios: AiosClient, market: Market, arguments: dict[str, Any]
) -> None:
    error = await aios.refused(
        "aios/task.create", capability_id=CAPABILITY, arguments=arguments, options={"async": True}
    )
    assert error.brief == (-32108, "Validation failed")
