"""What the example reads out of pages."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.search_and_compare.money import Price, read_price
from examples.search_and_compare.products import Offer, bring_together, matches, read_offers
from examples.search_and_compare.structured_data import read_items

URL = "http://shop.example/list/"


def offers(html: str) -> list[tuple[str, str, str]]:
    found = read_offers(read_items(html, URL), "shop", URL)
    return [(offer.name, str(offer.price), offer.url) for offer in found]


def json_ld(text: str) -> str:
    return f'<script type="application/ld+json">{text}</script>'


@pytest.mark.parametrize(
    ("amount", "currency", "price"),
    [
        ("299.00", "CNY", "¥299.00"),
        (299, "CNY", "¥299"),
        (Decimal("0.1"), "usd", "$0.1"),
        ("¥1,299.50", "CNY", "¥1299.50"),
        ("12,5", "EUR", "€12.5"),
        ("7", "CHF", "CHF 7"),
        ("7", None, "7"),
        ("7", "gold", "7"),
    ],
)
def test_a_price_is_read_exactly(amount: object, currency: object, price: str) -> None:
    assert str(read_price(amount, currency)) == price


@pytest.mark.parametrize(
    "amount", ["", "free", "-1", "1e400", "9999999999", None, True, [], 0.5, "1.2.3", "NaN"]
)
def test_what_is_no_price_is_none(amount: object) -> None:
    assert read_price(amount, "CNY") is None


def test_a_price_is_a_json_number_and_its_amount_is_exact() -> None:
    assert Price(Decimal("289.00"), "CNY").number == 289
    assert Price(Decimal("289.90"), "CNY").number == 289.9


def test_json_ld_is_read_in_its_many_forms() -> None:
    html = json_ld("{broken") + json_ld(
        """{"@context": "https://schema.org", "@graph": [
          {"@type": ["Product", "Thing"], "name": "耳机 A", "offers": {"@id": "#o"}},
          {"@id": "#o", "@type": "Offer", "price": "1,299.00", "priceCurrency": "CNY",
           "url": "/a"},
          {"@type": "http://schema.org/Product", "name": "B", "url": "b",
           "offers": {"@type": "AggregateOffer", "lowPrice": 5.10, "priceCurrency": "USD"}},
          {"@type": "Product", "name": "C", "offers": [{"@type": "Offer",
           "priceSpecification": {"price": 3, "priceCurrency": "EUR"}}]},
          {"@type": "Product", "name": "no price"},
          {"@type": "Book", "name": "D", "offers": {"@type": "Offer", "price": 1}}]}"""
    )
    assert offers(html) == [
        ("耳机 A", "¥1299.00", "http://shop.example/a"),
        ("B", "$5.10", "http://shop.example/list/b"),
        ("C", "€3", URL),
    ]


def test_microdata_is_read_as_the_standard_has_it() -> None:
    html = """<div itemscope itemtype="https://schema.org/Product" itemref="more">
      <h1 itemprop="name">无线 <b>耳机</b></h1>
      <div><div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
        <meta itemprop="priceCurrency" content="CNY"><span itemprop="price" content="289">..</span>
        <a itemprop="url" href="../p/1">buy</a></div></div></div>
      <p id="more"><span itemprop="mpn">123</span></p>"""
    assert offers(html) == [("无线 耳机", "¥289", "http://shop.example/p/1")]
    (offer,) = read_offers(read_items(html, URL), "shop", URL)
    assert offer.codes == {"123"}


def test_hostile_pages_cost_no_more_than_they_should() -> None:
    nested = "<div itemscope itemprop=a itemtype=https://schema.org/Product>" * 3000
    assert offers("<div itemscope>" + nested) == []
    assert offers('<div itemscope id="x" itemref="x"><p itemprop="name">n</div>') == []
    many = '<b itemscope itemprop="a b" itemref="i j" id="i">' + '<b itemscope itemprop=c id="j">'
    assert offers("<div itemscope itemref='i j'>" + many * 50) == []
    assert offers(json_ld("[" * 100_000)) == []
    assert offers(json_ld('{"a":' + "9" * 5000 + "}")) == []
    assert (
        offers(
            json_ld('{"@type":"Product","name":"\\ud800x","offers":{"price":NaN,"@type":"Offer"}}')
        )
        == []
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["@type", "@id", "name", "offers", "price", "url", "mpn"]), inner
            )
        ),
    )
)
def test_no_data_makes_the_reader_raise(value: Any) -> None:
    read_offers([{"@type": "Product", "name": "x", "offers": value, "mpn": value}], "s", URL)
    read_offers([{"@type": "Product", "name": value, "url": value}], "s", URL)


def test_a_query_matches_word_by_word_whatever_case_and_width() -> None:
    assert matches("无线耳机", "品牌 无线耳机 Pro")
    assert matches("WIRELESS pro", "Pro, \uff57ireless")
    assert not matches("wireless pro", "wireless")


def test_offers_of_one_product_come_together_by_code_or_name() -> None:
    def offer(site: str, name: str, amount: int, *codes: str) -> Offer:
        return Offer(site, name, Price(Decimal(amount), "CNY"), URL, frozenset(codes))

    products = bring_together(
        [
            offer("a", "Ear X1", 5, "123"),
            offer("a", "Ear X1", 4, "123"),
            offer("b", "Earphones X1", 6, "123"),
            offer("b", "Other", 1),
            offer("c", "earphones  x1", 7),
        ]
    )
    assert [sorted(one.offers) for one in products] == [["a", "b", "c"], ["b"]]
    assert products[0].id == "product-123"
    assert products[0].offers["a"].price.amount == 4
