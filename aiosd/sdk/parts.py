"""Pieces of content, written as Python values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from aiosd.api.v1 import content_pb2
from aiosd.sdk import json_text

MAX_TEXT_BYTES = 1024 * 1024
"""Most bytes of one text part."""

MAX_RAW_BYTES = 3 * 1024 * 1024
"""Most bytes of one raw part; longer content goes into several parts."""


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text, at most 1 MiB encoded."""

    text: str
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    """Any JSON value, None included."""

    value: Any
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes, at most 3 MiB. `filename` is for presentation and has no separators."""

    content: bytes
    media_type: str = ""
    filename: str = ""


@dataclass(frozen=True, slots=True)
class Url:
    """Where the content is; the daemon stores the address and never fetches it."""

    url: str
    media_type: str = ""
    filename: str = ""


PartLike: TypeAlias = Text | Data | Raw | Url | str | bytes | content_pb2.Part
"""What stands for a part: a bare str is a Text, bare bytes are a Raw."""


def encode(part: PartLike, field: str = "parts") -> content_pb2.Part:
    """The part as the contract writes it. Raises ValueError for one that is too large."""
    match part:
        case str():
            return encode(Text(part), field)
        case bytes():
            return encode(Raw(part), field)
        case content_pb2.Part():
            return part
        case Text(text, media_type):
            if len(text.encode()) > MAX_TEXT_BYTES:
                raise ValueError(f"{field}: a text part holds at most {MAX_TEXT_BYTES} bytes")
            return content_pb2.Part(text=text, media_type=media_type)
        case Data(value, media_type):
            return content_pb2.Part(data=json_text.dump(value, field), media_type=media_type)
        case Raw(content, media_type, filename):
            if len(content) > MAX_RAW_BYTES:
                raise ValueError(f"{field}: a raw part holds at most {MAX_RAW_BYTES} bytes")
            return content_pb2.Part(raw=content, media_type=media_type, filename=filename)
        case Url(url, media_type, filename):
            return content_pb2.Part(url=url, media_type=media_type, filename=filename)
        case _:
            raise TypeError(f"{field}: {type(part).__name__} is no part")


def decode(part: content_pb2.Part) -> Text | Data | Raw | Url | None:
    """The part as a Python value; None for a kind that this version does not know."""
    match part.WhichOneof("content"):
        case "text":
            return Text(part.text, part.media_type)
        case "data":
            return Data(json_text.load(part.data), part.media_type)
        case "raw":
            return Raw(part.raw, part.media_type, part.filename)
        case "url":
            return Url(part.url, part.media_type, part.filename)
        case _:
            return None
