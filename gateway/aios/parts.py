"""Parts of content between the daemon's canonical form and this wire's (X33, R083, R084, R088).

The daemon keeps one flat part: text, raw, url or data. This wire has six types, each with one
member of the type's name. What the flat form has no place for (a file's size, a length, an image
whose media type does not say so) is kept under the key `aios` of the part's metadata, so that a
part comes back from here, and from the other wires, as it was given.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aiosd.api.v1 import content_pb2
from gateway import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterable

_REFERENCES: Final = ("file", "image", "audio", "video")
TYPES: Final = ("text", "data", *_REFERENCES)
_KEPT: Final = "aios"
_LENGTHS: Final = ("size", "duration_ms")
_RAW_TYPE: Final = "application/octet-stream"


class PartError(ValueError):
    """A part that is not one of this wire's; the message says why."""


def render_parts(parts: Iterable[content_pb2.Part]) -> list[dict[str, Any]]:
    """Canonical parts as this wire writes them."""
    return [render_part(part) for part in parts]


def render_part(part: content_pb2.Part) -> dict[str, Any]:
    """One canonical part as this wire writes it."""
    metadata = dict(_object(part.metadata))
    kept = metadata.pop(_KEPT, None)
    kept = dict(kept) if isinstance(kept, Mapping) else {}
    content = part.WhichOneof("content")
    rendered: dict[str, Any] = {}
    if content == "data":
        value = json.loads(part.data)
        rendered = {"type": "data", "data": value if isinstance(value, dict) else {"value": value}}
        rendered |= _labels(part)
    elif content in ("url", "raw"):
        kind = str(kept.pop("type", "")) or _kind_of(content, part.media_type)
        rendered["type"] = kind
        rendered[kind] = _reference(part, kind, metadata, kept)
    else:
        rendered = {"type": "text", "text": part.text} | _labels(part)
    if metadata:
        rendered["metadata"] = metadata
    return rendered


def parse_part(value: object) -> content_pb2.Part:
    """One part of this wire as the canonical one. Raises PartError."""
    if not isinstance(value, Mapping):
        raise PartError("a part is an object")
    kind = value.get("type")
    if kind not in TYPES:
        raise PartError(f"type must be one of {', '.join(TYPES)}")
    others = [name for name in TYPES if name in value and name != kind]
    if kind not in value or others:
        raise PartError(f"a {kind} part has the member {kind} and no other content")
    content, metadata = value[kind], value.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise PartError("metadata must be an object")
    if kind in _REFERENCES:
        return _parse_reference(kind, content, dict(metadata))
    part = content_pb2.Part(metadata=_text(metadata))
    part.media_type, part.filename = _word(value, "mime_type"), _word(value, "name")
    if kind == "text":
        if not isinstance(content, str):
            raise PartError("text must be a string")
        part.text = content
    elif isinstance(content, Mapping):
        part.data = strict_json.dumps(content)
    else:
        raise PartError("data must be an object")
    return part


def _parse_reference(kind: str, content: object, metadata: dict[str, Any]) -> content_pb2.Part:
    if not isinstance(content, Mapping):
        raise PartError(f"{kind} must be an object")
    members = dict(content)
    uri = members.pop("uri", None)
    if not isinstance(uri, str) or not uri:
        raise PartError(f"{kind}.uri must be a string that is not empty")
    for name in _LENGTHS:
        length = members.get(name, 0)
        if isinstance(length, bool) or not isinstance(length, int) or length < 0:
            raise PartError(f"{kind}.{name} must be an integer that is not negative")
    media_type, filename = _word(members, "mime_type"), _word(members, "name")
    members.pop("mime_type", None)
    members.pop("name", None)
    raw = _raw(uri, media_type, filename, metadata)
    if raw is not None and render_part(raw).get(kind) == content:
        return raw
    kept = members if _kind_of("url", media_type) == kind else {"type": kind, **members}
    if kept:
        metadata[_KEPT] = kept
    return content_pb2.Part(
        url=uri, media_type=media_type, filename=filename, metadata=_text(metadata)
    )


def _raw(
    uri: str, media_type: str, filename: str, metadata: Mapping[str, Any]
) -> content_pb2.Part | None:
    """The part of bytes that a data URI spells; None for any other URI."""
    head, comma, encoded = uri.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    try:
        content = base64.b64decode(encoded, validate=True)
    except ValueError:
        return None
    return content_pb2.Part(
        raw=content, media_type=media_type, filename=filename, metadata=_text(metadata)
    )


def _reference(
    part: content_pb2.Part, kind: str, metadata: dict[str, Any], kept: dict[str, Any]
) -> dict[str, Any]:
    if part.WhichOneof("content") == "url":
        members: dict[str, Any] = {"uri": part.url}
        lengths = {n: metadata.pop(n) for n in _LENGTHS if isinstance(metadata.get(n), int)}
    else:
        encoded = base64.b64encode(part.raw).decode()
        members = {"uri": f"data:{part.media_type or _RAW_TYPE};base64,{encoded}"}
        lengths = {"size": len(part.raw)} if kind == "file" else {}
    if part.media_type:
        members["mime_type"] = part.media_type
    if part.filename:
        members["name"] = part.filename
    return members | lengths | kept


def _kind_of(content: str, media_type: str) -> str:
    family = media_type.partition("/")[0]
    return family if content == "url" and family in _REFERENCES[1:] else "file"


def _labels(part: content_pb2.Part) -> dict[str, str]:
    labels = {}
    if part.media_type:
        labels["mime_type"] = part.media_type
    if part.filename:
        labels["name"] = part.filename
    return labels


def _word(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str):
        raise PartError(f"{name} must be a string")
    return value


def _object(text: str) -> Mapping[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, Mapping) else {}


def _text(members: Mapping[str, Any]) -> str:
    return strict_json.dumps(members) if members else ""
