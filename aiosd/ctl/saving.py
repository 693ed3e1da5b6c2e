"""Artifacts as files: names that stay inside the directory, nothing overwritten."""

from __future__ import annotations

import json
import mimetypes
import re
from itertools import count, groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from aiosd.api.v1 import artifact_pb2, content_pb2

# Everything but letters, digits and a few marks; controls and marks that reorder text with it.
UNSAFE = re.compile(r"[^\w.@+=, -]+")
LONGEST_NAME = 120
ENDINGS = {"text": ".txt", "data": ".json", "url": ".url", "raw": ".bin"}


def content(parts: Iterable[content_pb2.Part]) -> bytes:
    """The parts one after the other: text as UTF-8, bytes as they are, data and URLs as lines."""
    pieces = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                pieces.append(part.text.encode())
            case "raw":
                pieces.append(part.raw)
            case "url":
                pieces.append(f"{part.url}\n".encode())
            case "data":
                value = json.loads(part.data)
                pieces.append(json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n")
            case _:
                continue
    return b"".join(pieces)


def save_artifact(artifact: artifact_pb2.Artifact, directory: Path) -> list[Path]:
    """Write an artifact into a directory; the files that were made.

    Neighbouring parts of one kind are one file; a file that exists is left alone and the new one
    gets a number.
    """
    name = safe_name(artifact.name) or safe_name(artifact.artifact_id) or "artifact"
    runs = [(kind, list(parts)) for kind, parts in groupby(artifact.parts, _kind)]
    saved = []
    for kind, parts in runs:
        own = next((part.filename for part in parts if part.filename), "")
        media_type = parts[0].media_type or (artifact.mime_type if kind != "data" else "")
        path = _fresh(directory, safe_name(own) or _with_ending(name, kind, media_type))
        with path.open("xb") as file:
            file.write(content(parts))
        saved.append(path)
    return saved


def safe_name(name: str) -> str:
    """A file name without separators, controls and leading dots; empty if nothing is left."""
    return UNSAFE.sub("_", name).lstrip(". ").rstrip()[:LONGEST_NAME]


def _kind(part: content_pb2.Part) -> str:
    return part.WhichOneof("content") or ""


def _with_ending(name: str, kind: str, media_type: str) -> str:
    ending = mimetypes.guess_extension(media_type) or ENDINGS.get(kind, "")
    stem, dot, own = name.rpartition(".")
    if dot and stem and own:
        # The name says what the artifact is; parts of another kind must not look like it.
        return f"{stem}{ending}" if kind in ("data", "url") and f".{own}" != ending else name
    return name + ending


def _fresh(directory: Path, name: str) -> Path:
    stem, dot, ending = name.rpartition(".")
    for number in count():
        path = directory / (
            name
            if number == 0
            else f"{stem}-{number}.{ending}"
            if dot and stem
            else f"{name}-{number}"
        )
        if not path.exists() and not path.is_symlink():
            return path
    raise AssertionError("count() has no end")
