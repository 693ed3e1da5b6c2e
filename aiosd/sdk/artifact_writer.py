"""Writing one artifact, chunk by chunk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import parts as part_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiosd.api.v1 import content_pb2
    from aiosd.sdk.attempt import Attempt
    from aiosd.sdk.parts import PartLike

CHUNK_BYTES = 2 * 1024 * 1024
"""About how much content one chunk carries; a single part may be larger."""


class ArtifactWriter:
    """An artifact that grows. Leaving `async with` without an exception seals it."""

    def __init__(self, attempt: Attempt, first: wire.ArtifactChunk) -> None:
        self._attempt = attempt
        self._first = first
        self._position = 0

    @property
    def artifact_id(self) -> str:
        """The id under which it is stored."""
        return self._first.artifact_id

    async def __aenter__(self) -> ArtifactWriter:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if kind is None:
            await self.write_all(())

    async def write(self, *parts: PartLike) -> None:
        """Add parts; they are stored when this returns. Raises ReportRefused."""
        await self._send(list(_chunks(parts)), seal=False)

    async def write_all(self, parts: Iterable[PartLike]) -> None:
        """Add parts and seal the artifact. Raises ReportRefused."""
        chunks = list(_chunks(parts))
        if not chunks:
            # An artifact of no chunks would have no content; an empty text is one.
            chunks = [[]] if self._position else [[part_kinds.encode("")]]
        await self._send(chunks, seal=True)

    async def _send(self, chunks: list[list[content_pb2.Part]], *, seal: bool) -> None:
        on_their_way = []
        for left, content in zip(range(len(chunks) - 1, -1, -1), chunks, strict=True):
            chunk = wire.ArtifactChunk(artifact_id=self._first.artifact_id)
            if self._position == 0:
                chunk.CopyFrom(self._first)
            chunk.parts.extend(content)
            chunk.position = self._position
            chunk.append = self._position > 0
            chunk.last_chunk = seal and left == 0
            self._position += 1
            on_their_way.append(await self._attempt.post(wire.Report(artifact_chunk=chunk)))
        # All of them have an answer before the first refusal is raised.
        for answer in await asyncio.gather(*on_their_way, return_exceptions=True):
            if answer is not None:
                raise answer


def _chunks(parts: Iterable[PartLike]) -> Iterator[list[content_pb2.Part]]:
    chunk: list[content_pb2.Part] = []
    size = 0
    for part in parts:
        encoded = part_kinds.encode(part)
        if chunk and size + encoded.ByteSize() > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(encoded)
        size += encoded.ByteSize()
    if chunk:
        yield chunk
