"""Who may call the gateway, from where, and with what: the rules that `gateway.guards` holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gateway.limits import HttpLimits

T = TypeVar("T")

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
JSON_ONLY: Final = frozenset({"application/json"})
A2A_MEDIA_TYPES: Final = frozenset({"application/json", "application/a2a+json"})

_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#*\s]+")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_READ_METHODS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """What the guards allow.

    `hosts` are further names of this server: `name` with the port of the listener or with none,
    `name:port` exactly. `origins` are foreign origins whose pages may call, as browsers write them
    (`https://app.example`); our own need not be named. Keys of mappings are path prefixes that
    match whole segments; the longest wins. Raises ValueError on a host or an origin that could
    never match or would match everything.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    public_paths: frozenset[str] = frozenset({"/", "/health", "/.well-known/agent-card.json"})
    public_prefixes: frozenset[str] = frozenset({"/static"})
    media_types: Mapping[str, frozenset[str] | None] = field(
        default_factory=lambda: {"/a2a": A2A_MEDIA_TYPES}
    )
    """Media types of bodies at prefixes; None leaves the question to the wire, which answers it
    in a shape of its own."""
    body_bytes: Mapping[str, int] = field(default_factory=dict)
    """Body limits of prefixes that differ from `limits.body_bytes`."""
    limits: HttpLimits = field(default_factory=HttpLimits)

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not _AUTHORITY.fullmatch(host):
                raise ValueError(f"hosts: {host!r} is not a lower-case name or name:port")
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"origins: {origin!r} is not an origin like https://app.example")

    def allows_host(self, authority: str, scheme: str, port: int | None) -> bool:
        """Whether Host names this server, which listens on `port` (None: a Unix socket)."""
        authority = authority.lower()
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        if authority in self.hosts:
            return True
        if match[1] not in LOOPBACK_NAMES and match[1] not in self.hosts:
            return False
        if match[2] is None:
            return port is None or port == _DEFAULT_PORTS[scheme]
        return port == int(match[2])

    def allows_origin(self, origin: str, scheme: str, port: int | None) -> bool:
        """Whether pages of `origin` may call: our own always, foreign ones when they are named."""
        if origin in self.origins:
            return True
        own_scheme, separator, authority = origin.partition("://")
        return (
            bool(separator) and own_scheme == scheme and self.allows_host(authority, scheme, port)
        )

    def is_public(self, method: str, path: str) -> bool:
        """Whether a request needs no credential. Only reading is ever public."""
        if method not in _READ_METHODS:
            return False
        if path in self.public_paths:
            return True
        return ".." not in path and any(_is_below(path, prefix) for prefix in self.public_prefixes)

    def media_types_at(self, path: str) -> frozenset[str] | None:
        """The media types that a body may have at this path; None: the wire itself decides."""
        return at_path(self.media_types, path, JSON_ONLY)

    def body_bytes_at(self, path: str) -> int:
        """The longest body at this path, in bytes."""
        return at_path(self.body_bytes, path, self.limits.body_bytes)


def at_path(by_prefix: Mapping[str, T], path: str, default: T) -> T:
    """The value of the longest prefix that the path is at or below."""
    matching = [prefix for prefix in by_prefix if _is_below(path, prefix)]
    return by_prefix[max(matching, key=len)] if matching else default


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
