"""What single values of settings look like: addresses, origins, targets, lifetimes.

Each check takes what a person wrote and gives it back in one canonical form, or raises
ValueError with a sentence that continues after the name of the setting.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
_TIMED = re.compile(r"timed:[1-9][0-9]{0,9}")
_LIFETIMES = ("once", "task", "session", "persistent")


@dataclass(frozen=True, slots=True)
class HostPort:
    """A TCP address. `host` has no brackets; `port` 0 means any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, value: object) -> HostPort:
        """Read HOST:PORT, an IPv6 host in brackets. Raises ValueError."""
        if isinstance(value, HostPort):
            return value
        host, port = _split_host_port(value, lowest_port=0)
        return cls(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def loopback_address(value: object) -> HostPort:
    """An address to listen on that other machines cannot reach (S-11)."""
    address = HostPort.parse(value)
    if not address.is_loopback:
        raise ValueError(
            f"must be a loopback address such as 127.0.0.1, since this port has no TLS: "
            f"put a TLS proxy in front of it; got {str(address)!r}"
        )
    return address


def optional_address(value: object) -> HostPort | None:
    """HOST:PORT, or nothing."""
    return None if value is None or value == "" else HostPort.parse(value)


def optional_path(value: object) -> Path | None:
    """A path as `absolute_path` takes it, or nothing."""
    return None if value is None or value == "" else absolute_path(value)


def absolute_path(value: object) -> Path:
    """A path with `~` expanded, made absolute against the working directory."""
    if isinstance(value, str):
        if not value:
            raise ValueError("must be a path, got an empty string")
        if "\0" in value:
            raise ValueError("must be a path without NUL")
        value = Path(value)
    if not isinstance(value, Path):
        raise ValueError(f"must be a path, got {value!r}")
    try:
        return value.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"names a home directory that does not exist: {value}") from error


def words(value: object) -> tuple[str, ...]:
    """A list of non-empty strings."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of strings, got {value!r}")
    for item in value:
        if not isinstance(item, str) or not item:
            raise ValueError(f"must be a list of non-empty strings, got the member {item!r}")
    return tuple(value)


def each(check: Callable[[str], str]) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """A check of a list that applies `check` to each member."""
    return lambda members: tuple(map(check, members))


def nothing_when_empty(value: object) -> object:
    """None for the empty string, so that an environment variable can unset a setting."""
    return None if value == "" else value


def truth(value: object) -> object:
    """True and false as a variable or a flag writes them."""
    words = {"true": True, "1": True, "false": False, "0": False}
    return words.get(value.strip().lower(), value) if isinstance(value, str) else value


def webhook_target(text: str) -> str:
    """One `webhook_allow` member: HOST:PORT, an IP address or a network in CIDR form (S-24)."""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as not_a_network:
        if "/" in text:
            raise ValueError(f"has a malformed network {text!r}: {not_a_network}") from None
    try:
        host, port = _split_host_port(text, lowest_port=1)
    except ValueError as error:
        raise ValueError(f"members are HOST:PORT or a network (CIDR); {error}") from None
    return str(HostPort(host.lower(), port))


def host_name(text: str) -> str:
    """One `http_allowed_hosts` member: HOST or HOST:PORT, compared with the Host header (S-13)."""
    if text == "*":
        raise ValueError("has no wildcard: name each host")
    if text.startswith("[") and text.endswith("]"):
        HostPort.parse(f"{text}:0")
        return text.lower()
    host = HostPort.parse(text if ":" in text else f"{text}:0")
    return str(host).lower() if ":" in text else host.host.lower()


def origin(text: str) -> str:
    """One `http_allowed_origins` member: scheme://host[:port], compared with Origin (S-13)."""
    parts = urlsplit(text)
    bare = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme not in ("http", "https") or not parts.netloc or text.lower() != bare.lower():
        raise ValueError(
            f"members are origins such as https://app.example, without a path; got {text!r}"
        )
    return bare.lower()


def http_url(value: object) -> object:
    """An http(s) URL or None; the empty string counts as None."""
    if value is None or value == "":
        return None
    parts = urlsplit(value) if isinstance(value, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"must be an http or https URL, got {value!r}")
    return value


def lifetime(text: str) -> str:
    """A permission's lifetime: once, task, session, persistent or timed:SECONDS."""
    if text in _LIFETIMES or _TIMED.fullmatch(text):
        return text
    raise ValueError(f"must be {', '.join(_LIFETIMES)} or timed:SECONDS, got {text!r}")


def _split_host_port(value: object, *, lowest_port: int) -> tuple[str, int]:
    if not isinstance(value, str):
        raise ValueError(f"must be HOST:PORT, got {value!r}")
    host, colon, port_text = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon or not host or not (port_text.isascii() and port_text.isdigit()):
        raise ValueError(f"must be HOST:PORT, got {value!r}")
    port = int(port_text[:6])
    if not lowest_port <= port <= 65535:
        raise ValueError(f"must have a port from {lowest_port} to 65535, got {value!r}")
    if bracketed:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"must have an IPv6 address in the brackets, got {value!r}") from None
    elif not _HOST_NAME.fullmatch(host):
        raise ValueError(f"must have a host name or an IP address, got {value!r}")
    return host, port
