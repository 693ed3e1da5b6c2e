"""The audit chain: records that name the one before under a keyed hash (S-32, S-33).

Whoever can write the store but has not the key cannot make a record, change one, swap two or cut
the middle without breaking the chain; the head, anchored outside the store, finds a cut tail.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import lru_cache
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
    digest = _keyed(key).copy()
    digest.update(_canonical(sequence, record, head.hash))
    return SealedRecord(sequence, record, head.hash, digest.digest())


def sign_head(key: bytes, head: Head) -> str:
    """Proof that the daemon wrote this head: it cannot be made from the records alone."""
    message = f"head:{head.sequence}:{head.hash.hex()}".encode()
    return hmac.digest(key, message, "sha256").hex()


class Verifier:
    """Follows the chain from the first record and compares it with the anchored head.

    `anchor` None means that there is none, which is a problem as soon as there are records.
    """

    def __init__(self, key: bytes, anchor: Head | None) -> None:
        self._key = key
        self._anchor = anchor
        self._head = Head()
        self._found: Finding | None = None

    def take(self, found: SealedRecord) -> bool:
        """The next record; False once a problem is found, after which no more are needed."""
        if self._found is None:
            problem = self._problem(found)
            if problem:
                self._found = Finding(self._head.sequence, self._head.sequence + 1, problem)
            else:
                self._head = Head(found.sequence, found.hash)
        return self._found is None

    def finish(self) -> Finding:
        """What verifying came to."""
        if self._found is not None:
            return self._found
        count = self._head.sequence
        if self._anchor is None:
            missing = "the anchored head is missing" if count else ""
            return Finding(count, count, missing)
        if self._anchor.sequence > count:
            return Finding(
                count,
                count + 1,
                f"the chain ends at {count}, but {self._anchor.sequence} records were anchored",
            )
        return Finding(count)

    def _problem(self, found: SealedRecord) -> str:
        expected = seal(self._key, self._head, found.record)
        where = expected.sequence
        if found.sequence != where:
            return f"record {where} is missing"
        if not hmac.compare_digest(found.previous_hash, self._head.hash):
            return f"record {where} does not follow the one before"
        if not hmac.compare_digest(found.hash, expected.hash):
            return f"record {where} was changed"
        anchor = self._anchor
        if anchor is not None and anchor.sequence == where and anchor.hash != found.hash:
            return f"record {where} is not the one that was anchored"
        return ""


def verify(key: bytes, records: Iterable[SealedRecord], anchor: Head | None) -> Finding:
    """Check a whole chain."""
    verifier = Verifier(key, anchor)
    for found in records:
        if not verifier.take(found):
            break
    return verifier.finish()


def request_hash(request: bytes) -> str:
    """What a record keeps of the request that caused it."""
    return hashlib.sha256(request).hexdigest()


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> hmac.HMAC:
    """The hash with its key taken in, to be copied: half of the cost of a short message."""
    return hmac.new(key, digestmod="sha256")


def _canonical(sequence: int, record: AuditRecord, previous: bytes) -> bytes:
    """The bytes under the hash: each text with its length, so that none can flow into the next."""
    texts = (
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
    framed = "".join([f"{len(text)}:{text}," for text in texts])
    return f"{sequence},{record.time},{framed}".encode()
