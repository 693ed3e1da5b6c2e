"""What the example says, in the language of the query."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """Every text for people; `{}` stands for a site, a product or a price."""

    searching: str
    site_results: str
    choose: str
    comparing: str
    report: str
    title: str
    price_at: str
    failed: str
    not_offered: str
    lowest: str


ENGLISH = Words(
    searching="Searching {}...",
    site_results="Results of {}",
    choose="Several products were found, choose the one to compare",
    comparing="Comparing prices...",
    report="Price comparison report",
    title="Prices",
    price_at="{}: {}",
    failed="{}: not compared ({})",
    not_offered="does not offer this product",
    lowest="Lowest: {}",
)
CHINESE = Words(
    searching="正在搜索{}...",
    site_results="{}搜索结果",
    choose="找到多个商品，请选择要比较的商品",  # noqa: RUF001 (the document's own sentence)
    comparing="正在比较价格...",
    report="价格对比报告",
    title="价格对比结果",
    price_at="{}价格: {}",
    failed="{}: 未能比较 ({})",
    not_offered="没有该商品",
    lowest="最低价: {}",
)


def words_for(query: str) -> Words:
    """Chinese for a query with Chinese characters, else English."""
    return CHINESE if re.search("[\u3400-\u9fff]", query) else ENGLISH
