"""The audit chain: records that name the one before under a keyed hash (S-32, S-33).

Whoever can write the store but has not the key cannot make a record, change one, swap two or cut
the middle without breaking the chain; the head, anchored outside the store, finds a cut tail.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What the first record names as the one before it.
GENESIS = bytes(32)
#: Bytes of the details of one record.
LONGEST_DETAILS = 4096


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """What happened, before it has a place in the chain.

    `details` is JSON object text, redacted, at most LONGEST_DETAILS bytes. `request_hash` is the
    SHA-256 of the request in hex, empty without one; `principal` is `daemon` for its own acts.
    """

    time: int
    event: str
    principal: str
    method: str = ""
    task_id: str = ""
    capability_id: str = ""
    decision: str = ""
    details: str = "{}"
    request_hash: str = ""


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """A record in the chain."""

    sequence: int
    record: AuditRecord
    previous_hash: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain; sequences are dense, so it is the number of records as well."""

    sequence: int = 0
    hash: bytes = GENESIS


@dataclass(frozen=True, slots=True)
class Finding:
    """What verifying came to. `broken_at` is the first sequence that does not fit, 0 if none."""

    count: int
    broken_at: int = 0
    problem: str = ""

    @property
    def intact(self) -> bool:
        """Nothing was edited, cut, swapped or truncated."""
        return not self.problem


def seal(key: bytes, head: Head, record: AuditRecord) -> SealedRecord:
    """Put a record behind `head`."""
    sequence = head.sequence + 1
    digest = hmac.digest(key, _canonical(sequence, record, head.hash), "sha256")
    return SealedRecord(sequence, record, head.hash, digest)


def sign_head(key: bytes, head: Head) -> str:
    """Proof that the daemon wrote this head: it cannot be made from the records alone."""
    message = f"head:{head.sequence}:{head.hash.hex()}".encode()
    return hmac.digest(key, message, "sha256").hex()


def verify(key: bytes, records: Iterable[SealedRecord], anchor: Head | None) -> Finding:
    """Follow the chain from the first record and compare it with the anchored head.

    `anchor` None means that there is none, which is a problem as soon as there are records.
    """
    head = Head()
    anchored = anchor is None or anchor.sequence == 0
    for found in records:
        expected = seal(key, head, found.record)
        where = head.sequence + 1
        if found.sequence != where:
            return Finding(head.sequence, where, f"record {where} is missing")
        if not hmac.compare_digest(found.previous_hash, head.hash):
            return Finding(head.sequence, where, f"record {where} does not follow the one before")
        if not hmac.compare_digest(found.hash, expected.hash):
            return Finding(head.sequence, where, f"record {where} was changed")
        head = Head(where, found.hash)
        if anchor is not None and anchor.sequence == where:
            if not hmac.compare_digest(anchor.hash, found.hash):
                return Finding(where, where, f"record {where} is not the one that was anchored")
            anchored = True
    if not anchored and anchor is not None:
        return Finding(
            head.sequence,
            head.sequence + 1,
            f"the chain ends at {head.sequence}, but {anchor.sequence} records were anchored",
        )
    if anchor is None and head.sequence:
        return Finding(head.sequence, head.sequence, "the anchored head is missing")
    return Finding(head.sequence)


def request_hash(request: bytes) -> str:
    """What a record keeps of the request that caused it."""
    return hashlib.sha256(request).hexdigest()


def _canonical(sequence: int, record: AuditRecord, previous: bytes) -> bytes:
    """The bytes under the hash: a JSON array, so that no member can flow into the next."""
    members = (
        sequence,
        record.time,
        record.event,
        record.principal,
        record.method,
        record.task_id,
        record.capability_id,
        record.decision,
        record.details,
        record.request_hash,
        previous.hex(),
    )
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
