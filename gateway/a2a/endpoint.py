"""The HTTP side of A2A: the agent card, JSON-RPC and REST."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from gateway import strict_json
from gateway.a2a import card, http, jsonrpc, rest, words
from gateway.a2a.card import Cards
from gateway.a2a.handler import Handler
from gateway.admission import Admission
from gateway.context import caller_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.context import GatewayContext

CARD_SECONDS: Final = 30
"""How long a card may be taken from a cache."""


def routes(context: GatewayContext) -> list[BaseRoute]:
    """The routes of this wire. `{url}` and `{url}/` are the same place, without a redirect."""
    # The SDK logs what it cannot read, payload and all; our own log tells what failed here.
    logging.getLogger("a2a").setLevel(logging.CRITICAL)
    admission = Admission(context.daemon)
    cards = Cards(context)
    handler = Handler(context, admission, cards)
    max_body_bytes = context.settings.max_message_bytes
    endpoint = jsonrpc.Endpoint(handler, admission, max_body_bytes)
    below = rest.Rest(handler, admission, max_body_bytes).routes()
    return [
        Route(words.CARD_PATH, CardEndpoint(cards).get, methods=["GET"]),
        Route(words.BASE_PATH, endpoint.post, methods=["POST"]),
        Route(f"{words.BASE_PATH}/", endpoint.post, methods=["POST"]),
        Mount(words.BASE_PATH, routes=[*below[:-1], _of_tenant(endpoint), *below[-1:]]),
    ]


def _of_tenant(endpoint: jsonrpc.Endpoint) -> BaseRoute:
    """JSON-RPC with the tenant in the path; the routes of REST have been tried before."""
    return Route("/{tenant}", endpoint.post, methods=["POST"])


class CardEndpoint:
    """GET of the public card; it is public and says nothing that the registry does not."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards

    async def get(self, request: Request) -> Response:
        """The card, or 304 for a client that has it."""
        # The same card for everybody, whatever token comes along.
        nobody = replace(caller_of(request), bearer="")
        found, changed_at = await self._cards.public(nobody, http.base_url(request))
        body = strict_json.dumps(card.to_json(found)).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {
            "ETag": etag,
            "Last-Modified": formatdate(changed_at, usegmt=True),
            "Cache-Control": f"public, max-age={CARD_SECONDS}",
        }
        known = request.headers.get("if-none-match", "")
        if etag in known or known.strip() == "*":
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=http.JSON, headers=headers)
