"""Answers that stay below the size of one gRPC message, whatever they carry (S-21, E14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)

#: Well below the 4 MiB of a message: one element may be nearly 3 MiB itself.
ENOUGH = 1024 * 1024


def groups(messages: Iterable[M]) -> Iterator[list[M]]:
    """The messages in order, cut into groups of about ENOUGH encoded bytes; none is empty."""
    group: list[M] = []
    size = 0
    for message in messages:
        length = message.ByteSize()
        if group and size + length > ENOUGH:
            yield group
            group, size = [], 0
        group.append(message)
        size += length
    if group:
        yield group


def first_group(messages: Iterable[M]) -> list[M]:
    """As many of the messages as belong into one answer; the next page has the rest."""
    return next(groups(messages), [])
