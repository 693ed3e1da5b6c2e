"""Parts as the AIOS wire writes them, as the parts of the contract.

What the flat form has no place for (a size, a length, a type that the media type does not tell) is
kept under the key `aios` of the part's metadata: the AIOS wire reads it from there, so that a part
is returned as it was given (X33, R084).
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from aiosd.api.v1 import content_pb2

REFERENCES = ("file", "image", "audio", "video")
TYPES = ("text", "data", *REFERENCES)
KEPT = "aios"
NAMED_BY_MEDIA_TYPE = ("image", "audio", "video")


def parse(value: dict[str, Any]) -> content_pb2.Part:
    """One part; `value` satisfies the schema PART of `lab_schema`."""
    kind, metadata = value["type"], dict(value.get("metadata", {}))
    part = content_pb2.Part()
    if kind in REFERENCES:
        members = dict(value[kind])
        part.media_type = members.pop("mime_type", "")
        part.filename = members.pop("name", "")
        uri = members.pop("uri")
        content = _data_uri(uri, part, kind, members)
        if content is not None:
            part.raw = content
        else:
            part.url = uri
            metadata |= _kept(kind, part.media_type, members)
    else:
        part.media_type, part.filename = value.get("mime_type", ""), value.get("name", "")
        if kind == "text":
            part.text = value["text"]
        else:
            part.data = _text(value["data"])
    part.metadata = _text(metadata) if metadata else ""
    return part


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _kept(kind: str, media_type: str, members: dict[str, Any]) -> dict[str, Any]:
    family = media_type.partition("/")[0]
    told = family if family in NAMED_BY_MEDIA_TYPE else "file"
    kept = members if told == kind else {"type": kind, **members}
    return {KEPT: kept} if kept else {}


def _data_uri(uri: str, part: content_pb2.Part, kind: str, members: dict[str, Any]) -> bytes | None:
    """The bytes that a file's data URI spells, if nothing of the part gets lost by that."""
    head = f"data:{part.media_type or 'application/octet-stream'};base64,"
    if kind != "file" or not uri.startswith(head):
        return None
    try:
        content = base64.b64decode(uri.removeprefix(head), validate=True)
    except binascii.Error:
        return None
    same = head + base64.b64encode(content).decode() == uri
    return content if same and members == {"size": len(content)} else None
