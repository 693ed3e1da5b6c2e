"""Products and what shops ask for them, read from a page's items and brought together."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from examples.search_and_compare.money import Price, read_price
from examples.search_and_compare.structured_data import has_type, text, values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OFFERS = ("Offer", "AggregateOffer", "OfferForPurchase", "OfferForLease", "Demand")
_CODES = ("gtin", "gtin14", "gtin13", "gtin12", "gtin8", "mpn")


@dataclass(frozen=True, slots=True)
class Offer:
    """One product at one site."""

    site: str
    name: str
    price: Price
    url: str
    codes: frozenset[str] = frozenset()
    available: bool | None = None


@dataclass(slots=True)
class Product:
    """What several sites may offer; `id` is the same in every attempt that sees the same."""

    id: str
    name: str
    names: set[str]
    codes: set[str] = field(default_factory=set)
    offers: dict[str, Offer] = field(default_factory=dict)
    """The lowest offer of each site."""


def read_offers(items: Iterable[dict[str, Any]], site: str, url: str) -> list[Offer]:
    """Every product with a price on a page. `url` stands for offers that name no page."""
    offers = []
    for item in items:
        if has_type(item, "Product", "ProductModel", "IndividualProduct") and text(item, "name"):
            codes = frozenset(f"{text(item, code)}" for code in _CODES if text(item, code))
            for price, about in _prices(item):
                page = text(about, "url") or text(item, "url")
                available = text(about, "availability").rpartition("/")[2]
                offers.append(
                    Offer(
                        site,
                        text(item, "name"),
                        price,
                        _join(url, page),
                        codes,
                        available in ("InStock", "LimitedAvailability") if available else None,
                    )
                )
    return offers


def matches(query: str, name: str) -> bool:
    """Whether a name has every word of the query, whatever their case and width."""
    plain = _plain(name)
    return all(word in plain for word in _plain(query).split())


def bring_together(offers: Iterable[Offer]) -> list[Product]:
    """One product for all offers that share a code (GTIN, MPN) or a name, as first seen."""
    products: list[Product] = []
    for offer in offers:
        name = _plain(offer.name)
        same = [one for one in products if name in one.names or one.codes & offer.codes]
        if not same:
            mark = min(offer.codes) if offer.codes else hashlib.sha256(name.encode()).hexdigest()
            same = [Product(f"product-{mark[:16]}", offer.name, set())]
            products += same
        product = same[0]
        for other in same[1:]:  # this offer shows that they are one
            products.remove(other)
            product.names |= other.names
            product.codes |= other.codes
            for one in other.offers.values():
                _keep_lowest(product, one)
        product.names.add(name)
        product.codes |= offer.codes
        _keep_lowest(product, offer)
    return products


def _keep_lowest(product: Product, offer: Offer) -> None:
    known = product.offers.get(offer.site)
    if known is None or offer.price.amount < known.price.amount:
        product.offers[offer.site] = offer


def _prices(product: dict[str, Any]) -> Iterator[tuple[Price, dict[str, Any]]]:
    for offer in values(product, "offers"):
        if not isinstance(offer, dict) or not (has_type(offer, *_OFFERS) or "price" in offer):
            continue
        details = [one for one in values(offer, "priceSpecification") if isinstance(one, dict)]
        for about in (offer, *details):
            amount = _first(about, "price") or _first(about, "lowPrice")
            price = read_price(amount, _first(about, "priceCurrency"))
            if price is not None:
                yield price, offer
                break


def _first(item: dict[str, Any], name: str) -> object:
    return next(iter(values(item, name)), None)


def _join(url: str, page: str) -> str:
    try:
        return urljoin(url, page)
    except ValueError:
        return url


def _plain(words: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", words).casefold().split())
