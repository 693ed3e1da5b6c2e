"""The capability `compat.browser.search_and_compare`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from aiosd.sdk import Data, Provider, TaskContext, TaskFailed
from examples.search_and_compare import report
from examples.search_and_compare.fetching import Limits, Visitor
from examples.search_and_compare.products import Product, bring_together
from examples.search_and_compare.site import Found, display_name, search
from examples.search_and_compare.words import words_for

if TYPE_CHECKING:
    from examples.search_and_compare.fetching import Page
    from examples.search_and_compare.words import Words

CAPABILITY = "compat.browser.search_and_compare"
MAX_CHOICES = 20
"""Most products that are offered for choice."""

INPUT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "pattern": "\\S",
            "description": "What to look for: every word must be in a product's name.",
        },
        "sites": {
            "type": "array",
            "minItems": 1,
            "maxItems": 10,
            "uniqueItems": True,
            "items": {"type": "string", "minLength": 1, "maxLength": 2000},
            "description": "Host names or URLs; in a URL {query} stands for the query.",
        },
    },
    "required": ["query", "sites"],
    "additionalProperties": False,
}


def make_provider(limits: Limits) -> Provider:
    """The provider; its pages cost at most `limits` each."""
    provider = Provider("search-and-compare", credits=4)

    @provider.capability(
        CAPABILITY,
        name="Search and compare",
        level="public",
        tool_id="compat.browser",
        pausable=True,
        retry_safe=True,  # it only reads
        default_timeout_ms=120_000,
        estimated_duration_ms=30_000,
        input_schema=INPUT_SCHEMA,
        tags=("shopping", "comparison"),
    )
    async def search_and_compare(task: TaskContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Searches shops for a product and compares their prices."""
        query, sites = arguments["query"], arguments["sites"]
        words, steps = words_for(query), len(sites) + 2
        found = []
        async with Visitor(limits) as visitor:

            async def fetch(url: str) -> Page:
                await task.checkpoint()
                return await visitor.fetch(url)

            for step, site in enumerate(sites, 1):
                said = words.searching.format(display_name(site))
                await task.progress(100 * step / steps, said, step, steps)
                found.append(await search(site, query, fetch))
                if found[-1].problem:
                    await task.log(f"{found[-1].name}: {found[-1].problem}", "warn")
        products = bring_together(offer for one in found for offer in one.offers)
        if not products:
            raise TaskFailed(
                "no site gave a price that can be compared",
                reason="nothing_found",
                data={"sites": {one.site: one.problem for one in found}},
            )
        await _deliver_findings(task, found, words)
        product = await _choose(task, products, words)
        await task.progress(100 * (steps - 1) / steps, words.comparing, steps - 1, steps)
        comparison = report.compare(query, product, found, words)
        await task.artifact(
            words.report,
            *report.parts(comparison, words),
            type="report",
            mime_type="application/json",
            artifact_id=_artifact_id(task, "report"),
            metadata={"source_task": task.task_id, "version": 1},
        )
        return report.result(comparison)

    return provider


async def _deliver_findings(task: TaskContext, found: list[Found], words: Words) -> None:
    for one in found:
        if not one.problem:
            offers = [report.offer_data(offer) for offer in one.offers]
            await task.artifact(
                words.site_results.format(one.name),
                Data({"site": one.site, "offers": offers}),
                type="data",
                mime_type="application/json",
                artifact_id=_artifact_id(task, one.site),
            )


async def _choose(task: TaskContext, products: list[Product], words: Words) -> Product:
    """The product to compare: the only one, or the one that is chosen among several."""
    if len(products) == 1:
        return products[0]
    # What most sites offer comes first: it is what can be compared.
    ranked = sorted(products, key=lambda one: -len(one.offers))[:MAX_CHOICES]
    options = [{"id": one.id, "label": _label(one)} for one in ranked]
    answer = await task.ask(words.choose, options)
    for product in ranked:
        if product.id in answer.values():
            return product
    # Only an answer of an earlier attempt can name what is not on offer any more.
    raise TaskFailed("the chosen product is not offered any more", reason="product_gone")


def _label(product: Product) -> str:
    return f"{product.name} ({', '.join(str(one.price) for one in product.offers.values())})"


def _artifact_id(task: TaskContext, about: str) -> str:
    """The same in every attempt, so that a later one replaces what an earlier one made."""
    return f"art-{uuid.uuid5(uuid.NAMESPACE_OID, f'{task.task_id}/{about}').hex}"
