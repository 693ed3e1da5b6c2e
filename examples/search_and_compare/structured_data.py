"""What a page says about itself in schema.org's words: JSON-LD and microdata, in one form.

An item is a dict as in JSON-LD: "@type" and properties; several values are a list. Microdata is
read as the HTML standard has it (section 5.2), with the `content` attribute on any element, which
shops use and search engines honour.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selectolax.lexbor import LexborNode

MAX_NODES = 20_000
"""Most values, and most elements, of one page's data that are looked at."""

MAX_NESTING = 16
"""Deepest nesting of items in microdata."""

_URL_ATTRIBUTES = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}
_VALUE_ATTRIBUTES = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}


def read_items(html: str, url: str) -> list[dict[str, Any]]:
    """All items of a page, outer before inner; `url` is where relative addresses begin."""
    tree = LexborHTMLParser(html)
    roots: list[Any] = [*_json_ld(tree), *_Microdata(tree, url).items()]
    items = list(_walk(roots))
    known = {item["@id"]: item for item in items if isinstance(item.get("@id"), str)}
    return [_resolved(item, known) for item in items]


def has_type(item: dict[str, Any], *names: str) -> bool:
    """Whether an item is of one of these types of schema.org."""
    return any(
        isinstance(kind, str) and kind.rpartition("/")[2].rpartition(":")[2] in names
        for kind in values(item, "@type")
    )


def values(item: dict[str, Any], name: str) -> list[Any]:
    """The values of a property, none or one or many."""
    value = item.get(name)
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def text(item: dict[str, Any], name: str) -> str:
    """The first value of a property that is text, on one line; "" if there is none."""
    for value in values(item, name):
        if isinstance(value, dict):
            value = value.get("name") or value.get("@id")
        if isinstance(value, str | int) and not isinstance(value, bool):
            # Escapes of JSON can spell half a character, which no UTF-8 can carry.
            clean = str(value).encode("utf-8", "ignore").decode()
            return " ".join(clean.split())[:300]
    return ""


def _json_ld(tree: LexborHTMLParser) -> Iterator[Any]:
    for script in tree.css('script[type="application/ld+json"]'):
        try:
            yield json.loads(script.text(), parse_float=Decimal, strict=False)
        except (ValueError, RecursionError):
            continue  # one broken block says nothing about the others


def _walk(roots: list[Any]) -> Iterator[dict[str, Any]]:
    waiting = roots[::-1]
    for _ in range(MAX_NODES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value[::-1]
        elif isinstance(value, dict):
            yield value
            waiting += list(value.values())[::-1]


def _resolved(item: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The item with its references to others of the page replaced by those."""

    def look_up(value: Any) -> Any:
        if isinstance(value, list):
            return [look_up(one) for one in value if not isinstance(one, list)]
        if isinstance(value, dict) and value.keys() == {"@id"} and isinstance(value["@id"], str):
            return known.get(value["@id"], value)
        return value

    return {name: look_up(value) for name, value in item.items()}


class _Microdata:
    """The microdata of one page. Items may refer to each other, so the work is bounded."""

    def __init__(self, tree: LexborHTMLParser, url: str) -> None:
        self._tree = tree
        self._url = url
        self._left = MAX_NODES
        self._by_id = {one.attributes.get("id"): one for one in reversed(tree.css("[id]"))}

    def items(self) -> Iterator[dict[str, Any]]:
        """The items that are no property of another."""
        for node in self._tree.css("[itemscope]:not([itemprop])"):
            yield self._item(node, 0)

    def _item(self, node: LexborNode, depth: int) -> dict[str, Any]:
        attributes = node.attributes
        item: dict[str, Any] = {"@type": (attributes.get("itemtype") or "").split()}
        if attributes.get("itemid"):
            item["@id"] = attributes["itemid"]
        names = (attributes.get("itemref") or "").split()[::-1]
        waiting = [self._by_id[name] for name in names if name in self._by_id] + _children(node)
        while waiting and self._left > 0:
            self._left -= 1
            element = waiting.pop()
            given = element.attributes
            properties = (given.get("itemprop") or "").split()
            if "itemscope" not in given:
                waiting += _children(element)
            if properties and ("itemscope" not in given or depth < MAX_NESTING):
                value = self._value(element, depth)
                for name in {*properties} - {"@type", "@id"}:
                    item.setdefault(name, []).append(value)
        return item

    def _value(self, node: LexborNode, depth: int) -> Any:
        attributes, tag = node.attributes, node.tag or ""
        if "itemscope" in attributes:
            return self._item(node, depth + 1)
        content = attributes.get("content")
        if content is not None:
            return content
        if tag in _URL_ATTRIBUTES:
            try:
                return urljoin(self._url, attributes.get(_URL_ATTRIBUTES[tag]) or "")
            except ValueError:
                return ""
        return attributes.get(_VALUE_ATTRIBUTES.get(tag, "")) or node.text().strip()


def _children(node: LexborNode) -> list[LexborNode]:
    """The child elements, the last first."""
    return list(node.iter())[::-1]
