"""Artifacts and the rules of their chunks (Z30-Z36, R193-R195)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from aiosd.domain.content import Part
from aiosd.domain.errors import ReportRefused


@dataclass(frozen=True, slots=True)
class Artifact:
    """What is known of an artifact without its content.

    `digests` are those of the chunks of this version, in order: a repetition of any of them is
    told from a conflict by them (Z33).
    """

    artifact_id: str
    name: str = ""
    type: str = ""
    mime_type: str = ""
    description: str = ""
    metadata: str = ""
    version: int = 1
    part_count: int = 0
    size_bytes: int = 0
    sealed: bool = False
    sha256: str = ""
    digests: tuple[str, ...] = ()
    create_time: int = 0
    update_time: int = 0

    @property
    def chunk_count(self) -> int:
        """Accepted chunks of this version."""
        return len(self.digests)

    @property
    def summary(self) -> Artifact:
        """What an event tells: with the digests, a log of n chunks would grow by n squared."""
        return replace(self, digests=())


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as the provider sent it; `position` None means the next one."""

    artifact_id: str
    parts: tuple[Part, ...]
    append: bool
    last: bool
    position: int | None = None
    name: str = ""
    type: str = ""
    mime_type: str = ""
    description: str = ""
    metadata: str = ""
    #: Digest of the encoded parts; made where they are encoded.
    digest: str = ""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it is kept."""

    artifact_id: str
    version: int
    position: int
    parts: tuple[Part, ...]


def accept_chunk(known: Artifact | None, chunk: Chunk, now: int) -> Artifact | None:
    """The artifact after the chunk; None for an exact repetition, which changes nothing.

    Raises ReportRefused: ARTIFACT_UNKNOWN, ARTIFACT_SEALED, CHUNK_CONFLICT, CHUNK_GAP.
    """
    if not chunk.append:
        return _begin(known, chunk, now)
    if known is None:
        raise ReportRefused(
            "ARTIFACT_UNKNOWN", f"append to artifact {chunk.artifact_id}, which was never begun"
        )
    position = known.chunk_count if chunk.position is None else chunk.position
    if position < known.chunk_count:
        if known.digests[position] == chunk.digest:
            return None
        raise ReportRefused(
            "CHUNK_CONFLICT",
            f"chunk {position} of artifact {chunk.artifact_id} was accepted with other content",
        )
    if known.sealed:
        raise ReportRefused("ARTIFACT_SEALED", f"artifact {chunk.artifact_id} is sealed")
    if position > known.chunk_count:
        raise ReportRefused(
            "CHUNK_GAP",
            f"chunk {position} of artifact {chunk.artifact_id} came before chunk"
            f" {known.chunk_count}",
        )
    return _grown(known, chunk, now)


def _begin(known: Artifact | None, chunk: Chunk, now: int) -> Artifact | None:
    if chunk.position not in (None, 0):
        raise ReportRefused(
            "CHUNK_GAP",
            f"artifact {chunk.artifact_id} cannot begin with chunk {chunk.position}",
        )
    repeats = (
        known is not None
        and known.chunk_count == 1
        and known.digests[0] == chunk.digest
        and known.sealed == chunk.last
        and known.name == chunk.name
    )
    if repeats:
        return None
    fresh = Artifact(
        artifact_id=chunk.artifact_id,
        name=chunk.name,
        type=chunk.type,
        mime_type=chunk.mime_type,
        description=chunk.description,
        metadata=chunk.metadata,
        version=1 if known is None else known.version + 1,
        create_time=now,
    )
    return _grown(fresh, chunk, now)


def _grown(artifact: Artifact, chunk: Chunk, now: int) -> Artifact:
    digests = (*artifact.digests, chunk.digest)
    return replace(
        artifact,
        digests=digests,
        part_count=artifact.part_count + len(chunk.parts),
        size_bytes=artifact.size_bytes + sum(part.size for part in chunk.parts),
        sealed=chunk.last,
        sha256=sha256("".join(digests).encode()).hexdigest() if chunk.last else "",
        metadata=chunk.metadata or artifact.metadata,
        update_time=now,
    )
