"""Which forms of an answer a client accepts."""

from __future__ import annotations

from typing import Literal

Form = Literal["json", "stream"]

_JSON = ("application/json", "application/*", "*/*")
_STREAM = ("text/event-stream",)
_ANY_STREAM = ("text/event-stream", "text/*", "*/*")


def choose(accept: str | None) -> Form | None:
    """JSON or a stream of events; None when neither is acceptable (406).

    A stream must be named: nobody who accepts anything expects one. Of two that are named the
    one with the higher weight wins, and the stream on a tie, because only few methods stream.
    """
    weights = _weights(accept)
    json, stream = _best(weights, _JSON), _best(weights, _STREAM)
    if not json and not stream:
        return None
    return "stream" if stream >= json else "json"


def takes_stream(accept: str | None) -> bool:
    """Whether a stream of events is acceptable."""
    return _best(_weights(accept), _ANY_STREAM) > 0


def _best(weights: dict[str, float], media_types: tuple[str, ...]) -> float:
    return max(weights.get(media_type, 0.0) for media_type in media_types)


def _weights(accept: str | None) -> dict[str, float]:
    weights: dict[str, float] = {}
    for item in (accept or "*/*").split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        weights[media_type] = max(weights.get(media_type, 0.0), _weight(parameters))
    return weights


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
