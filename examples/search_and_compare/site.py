"""One shop: where to look for a query, and what was found there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from examples.search_and_compare.fetching import FetchError
from examples.search_and_compare.products import Offer, matches, read_offers
from examples.search_and_compare.structured_data import has_type, read_items, text, values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from examples.search_and_compare.fetching import Page

MAX_PRODUCT_PAGES = 5
"""Most pages that a list of results is followed to."""

_TERM = "{search_term_string}"


@dataclass(slots=True)
class Found:
    """What one site gave. `problem` says why there is nothing, for people."""

    site: str
    name: str
    offers: list[Offer] = field(default_factory=list)
    problem: str = ""


def display_name(site: str) -> str:
    """A site's host without www, until its pages have said what it is called."""
    try:
        host = urlsplit(_address(site, "")).netloc
    except ValueError:
        host = ""
    return (host or site).rpartition("@")[2].removeprefix("www.")


async def search(site: str, query: str, fetch: Callable[[str], Awaitable[Page]]) -> Found:
    """What a site offers for a query.

    `site` is a host name or a URL, in which `{query}` stands for the query. A page that declares a
    schema.org SearchAction is searched with it, a list of products is followed to their pages.
    """
    found = Found(site, display_name(site))
    try:
        page = await fetch(_address(site, query))
        items = read_items(page.html, page.url)
        found.name = _site_name(items) or found.name
        target = "" if "{query}" in site else _search_target(items)
        if target:
            page = await fetch(target.replace(_TERM, quote(query, safe="")))
            items = read_items(page.html, page.url)
        offers = read_offers(items, site, page.url)
        if not offers:
            for url in _listed(items)[:MAX_PRODUCT_PAGES]:
                listed = await fetch(url)
                offers += read_offers(read_items(listed.html, listed.url), site, listed.url)
    except FetchError as problem:
        found.problem = str(problem)
        return found
    found.offers = [offer for offer in offers if matches(query, offer.name)]
    if not found.offers:
        found.problem = "no product with a price matches"
    return found


def _address(site: str, query: str) -> str:
    address = site if "://" in site else f"https://{site}"
    return address.replace("{query}", quote(query, safe=""))


def _site_name(items: list[dict[str, Any]]) -> str:
    return next((text(one, "name")[:60] for one in items if has_type(one, "WebSite")), "")


def _search_target(items: list[dict[str, Any]]) -> str:
    for item in items:
        if has_type(item, "WebSite"):
            for action in values(item, "potentialAction"):
                for target in values(action, "target") if isinstance(action, dict) else []:
                    template = text(target, "urlTemplate") if isinstance(target, dict) else target
                    if isinstance(template, str) and _TERM in template:
                        return template
    return ""


def _listed(items: list[dict[str, Any]]) -> list[str]:
    urls = []
    for item in items:
        if has_type(item, "ListItem"):
            inner = next((one for one in values(item, "item") if isinstance(one, dict)), {})
            urls.append(text(item, "url") or text(inner, "url") or text(inner, "@id"))
    return list(dict.fromkeys(url for url in urls if url.startswith(("http://", "https://"))))
