"""The comparison as text for people, data for programs and a chart."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiosd.api.v1 import content_pb2
from aiosd.sdk import Data, Text
from examples.search_and_compare.products import Product

if TYPE_CHECKING:
    from examples.search_and_compare.products import Offer
    from examples.search_and_compare.site import Found
    from examples.search_and_compare.words import Words

_WIDTH, _ROW, _LABEL = 640, 40, 200


@dataclass(frozen=True, slots=True)
class Comparison:
    """One product at the sites that offer it, and why the others are not compared."""

    query: str
    product: Product
    names: dict[str, str]
    problems: dict[str, str]

    @property
    def offers(self) -> list[Offer]:
        """The offers in the order in which the sites were given."""
        return [self.product.offers[site] for site in self.names if site in self.product.offers]

    @property
    def lowest(self) -> Offer | None:
        """The lowest offer; None where currencies differ, since nothing is converted here."""
        if len({offer.price.currency for offer in self.offers}) > 1:
            return None
        return min(self.offers, key=lambda offer: offer.price.amount)


def compare(query: str, product: Product, found: list[Found], words: Words) -> Comparison:
    """The comparison of a product over all sites that were searched."""
    problems = {
        one.site: one.problem or words.not_offered
        for one in found
        if one.site not in product.offers
    }
    return Comparison(query, product, {one.site: one.name for one in found}, problems)


def offer_data(offer: Offer) -> dict[str, Any]:
    """An offer for programs: `price` is a number, `amount` the same exactly, as text."""
    return {
        "name": offer.name,
        "price": offer.price.number,
        "amount": f"{offer.price.amount:f}",
        "currency": offer.price.currency,
        "url": offer.url,
        "available": offer.available,
    }


def result(comparison: Comparison) -> dict[str, Any]:
    """The result of the task."""
    lowest = comparison.lowest
    return {
        "query": comparison.query,
        "product": {"id": comparison.product.id, "name": comparison.product.name},
        "sites": {offer.site: offer_data(offer) for offer in comparison.offers},
        "failed": comparison.problems,
        "lowest": lowest.site if lowest else None,
    }


def parts(comparison: Comparison, words: Words) -> tuple[Text, Data, content_pb2.Part]:
    """The parts of the report: Markdown, {site: offer} and a chart (SVG)."""
    data = {offer.site: offer_data(offer) for offer in comparison.offers}
    picture = content_pb2.Part(
        raw=chart(comparison).encode(),
        media_type="image/svg+xml",
        filename="chart.svg",
        metadata='{"aios":{"type":"image"}}',  # bytes are a file on that wire unless they say so
    )
    return (
        Text(markdown(comparison, words), "text/markdown"),
        Data(data),
        picture,
    )


def markdown(comparison: Comparison, words: Words) -> str:
    """The report for people. What pages say is escaped: it is theirs, not ours."""
    lines = [f"## {words.title}", "", f"**{_escape(comparison.product.name)}**", ""]
    for offer in comparison.offers:
        name = _escape(comparison.names[offer.site])
        lines.append("- " + words.price_at.format(name, offer.price))
    for site, problem in comparison.problems.items():
        lines.append("- " + words.failed.format(_escape(comparison.names[site]), _escape(problem)))
    if comparison.lowest is not None:
        name = _escape(comparison.names[comparison.lowest.site])
        lines += ["", f"**{words.lowest.format(name)}**"]
    return "\n".join(lines)


def chart(comparison: Comparison) -> str:
    """A bar for each offer; bars of different currencies are not comparable."""
    offers = comparison.offers
    rows = []
    for row, offer in enumerate(offers):
        alike = [one.price.amount for one in offers if one.price.currency == offer.price.currency]
        share = float(offer.price.amount / max(alike)) if max(alike) else 0.0
        middle = row * _ROW + _ROW // 2
        length = round(share * (_WIDTH - _LABEL - 140))
        name = html.escape(comparison.names[offer.site][:24])
        price, end = html.escape(str(offer.price)), _LABEL + length + 8
        rows.append(
            f'<text x="{_LABEL - 10}" y="{middle + 5}" text-anchor="end">{name}</text>'
            f'<rect x="{_LABEL}" y="{middle - 12}" width="{length}" height="24" fill="#2a6f97"/>'
            f'<text x="{end}" y="{middle + 5}">{price}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_ROW * len(offers)}" '
        f'font-family="sans-serif" font-size="15">{"".join(rows)}</svg>'
    )


def _escape(words: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|!])", r"\\\1", words)
