"""Keeping secrets and request bodies out of log lines (S-31)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

MASK: Final = "***"
OMITTED: Final = "[omitted]"
MIN_SECRET_LENGTH: Final = 8
"""Shorter values cannot be registered: they would blot out ordinary text."""

_SECRET_KEY = re.compile(
    r"authorization|cookie|token|secret|password|api[_-]?key|credential|private[_-]?key", re.I
)
_NO_SECRET_KEYS = frozenset({"token_id", "token_file", "approver_token_file"})
_BODY_KEYS = frozenset(
    {"arguments", "body", "headers", "input", "params", "parts", "payload", "request", "response"}
)
_BEARER = re.compile(r"\bbearer\s+[\w.~+/-]+=*", re.I)
_OUR_TOKEN = re.compile(r"\baios_[\w-]{16,}")

#: Text without any of these can hold no member and no token that is masked: seen at a glance.
_MARKS = (
    *("authorization", "cookie", "token", "secret", "password", "api", "credential", "private"),
    *("bearer", "aios_", "\\u"),
)
_MAX_DEPTH = 16
_MAX_TEXT = 16_384


class Redactor:
    """A structlog processor that masks secrets, whichever way they got into a line.

    Masked are the values registered as live secrets, wherever they occur, bearer tokens, and
    everything under a key that names a secret, in nested mappings, lists and JSON texts alike.
    Request bodies are left out whole.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()

    def register(self, secret: str) -> None:
        """From now on mask this value. Each call wants a `forget`; values under 8 are left out."""
        if len(secret) >= MIN_SECRET_LENGTH:
            with self._lock:
                self._counts[secret] = self._counts.get(secret, 0) + 1
                self._compile()

    def forget(self, secret: str) -> None:
        """The secret is no longer alive."""
        with self._lock:
            count = self._counts.pop(secret, 0)
            if count > 1:
                self._counts[secret] = count - 1
            self._compile()

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Redact one log line."""
        return {self.text(str(key)): self._member(key, value, 0) for key, value in event.items()}

    def text(self, text: str) -> str:
        """Mask registered secrets and bearer tokens in plain text."""
        pattern = self._pattern
        if pattern is not None:
            text = pattern.sub(MASK, text)
        return _OUR_TOKEN.sub(MASK, _BEARER.sub(f"Bearer {MASK}", text))

    def document(self, text: str) -> str:
        """Mask secrets in JSON text, bodies included: what the audit keeps of parameters."""
        if not self._suspicious(text):
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        return json.dumps(self._value(value, 0, bodies=True), ensure_ascii=False)

    def _suspicious(self, text: str) -> bool:
        """Whether anything could be a secret: escapes may hide one, so they count."""
        pattern = self._pattern
        if pattern is not None and pattern.search(text) is not None:
            return True
        lowered = text.lower()
        return any(mark in lowered for mark in _MARKS)

    def _compile(self) -> None:
        """Longest first, so that a secret that contains another is masked as a whole."""
        spellings = {spelling for secret in self._counts for spelling in _spellings(secret)}
        ordered = sorted(spellings, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def _member(self, key: object, value: object, depth: int, bodies: bool = False) -> object:
        name = str(key).lower()
        if name in _BODY_KEYS and not bodies:
            return OMITTED
        if name not in _NO_SECRET_KEYS and _SECRET_KEY.search(name):
            return value if value is None or isinstance(value, bool) else MASK
        return self._value(value, depth, bodies)

    def _value(self, value: object, depth: int, bodies: bool = False) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return f"[{len(value)} bytes]"
        if depth >= _MAX_DEPTH:
            return OMITTED
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): self._member(key, member, depth + 1, bodies)
                for key, member in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self._value(member, depth + 1, bodies) for member in value]
        return self._string(str(value), depth, bodies)

    def _string(self, text: str, depth: int, bodies: bool = False) -> str:
        stripped = text.strip()
        if stripped[:1] in ("{", "[") and len(text) <= _MAX_TEXT:
            try:
                nested = json.loads(stripped)
            except (ValueError, RecursionError):
                pass
            else:
                redacted = self._value(nested, depth + 1, bodies)
                if redacted != nested:
                    return json.dumps(redacted, ensure_ascii=False)
        text = self.text(text)
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}[cut]"


def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as itself, and as it looks inside a JSON text and inside a `repr`."""
    return (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1])
