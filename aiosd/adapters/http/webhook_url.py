"""Reading a webhook's URL, once and strictly, so that no two readers can differ (S-22)."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiosd.adapters.http.address_policy import Address, why_denied
from aiosd.application.errors import WebhookUrlRefused
from aiosd.application.trust_ports import Target

if TYPE_CHECKING:
    from aiosd.adapters.http.address_policy import Allowlist

LONGEST = 2048
LOWEST_FREE_PORT = 1024
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
# What inet_aton and browsers would read as an IPv4 address: 127.1, 0x7f000001, 0177.0.0.1, 0.
_NUMERIC = re.compile(r"(\d+|0x[0-9a-f]*)")
_LOOPBACK = ipaddress.IPv4Address("127.0.0.1")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """A URL taken apart; `address` is set if the host is a literal one."""

    scheme: str
    host: str
    port: int
    address: Address | None
    target: Target


def read_url(url: str, allow: Allowlist) -> WebhookUrl:
    """The parts of a URL that may be registered; raises WebhookUrlRefused. Resolves nothing."""
    if len(url) > LONGEST:
        raise WebhookUrlRefused(f"must not exceed {LONGEST} characters")
    if not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise WebhookUrlRefused(
            "must be printable ASCII without spaces and backslashes; write other hosts in IDNA"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WebhookUrlRefused("is not a URL") from None
    if parts.scheme not in _PORTS or not url.lower().startswith(f"{parts.scheme}://"):
        raise WebhookUrlRefused("must be https (or http to an allowed target)")
    if "@" in parts.netloc:
        raise WebhookUrlRefused("must not hold a user name or a password")
    if "#" in url:
        raise WebhookUrlRefused("must not hold a fragment")
    host, address = _host(parts.netloc, parts.hostname or "")
    port = _PORTS[parts.scheme] if port is None else port
    named = allow.names(host, port)
    literal = address is not None and allow.covers(address)
    # Registration resolves nothing; what `localhost` means is known without.
    local = host == "localhost" or host.endswith(".localhost")
    literal = literal or (local and allow.covers(_LOOPBACK))
    if parts.scheme == "http" and not (named or literal):
        raise WebhookUrlRefused("must be https; http is for targets in webhook_allow only")
    if not (named or literal):
        if port not in _PORTS.values() and port < LOWEST_FREE_PORT:
            raise WebhookUrlRefused(f"port {port} is not allowed: 443, 80 or 1024 and above are")
        if address is not None and (why := why_denied(address)):
            raise WebhookUrlRefused(f"the address {host} is not allowed: {why}")
        if local:
            raise WebhookUrlRefused(f"the host {host} is not allowed: loopback")
    bracketed = f"[{host}]" if ":" in host else host
    endpoint = f"{parts.scheme}://{bracketed}:{port}"
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return WebhookUrl(parts.scheme, host, port, address, Target(endpoint, shown))


def _host(netloc: str, host: str) -> tuple[str, Address | None]:
    if netloc.startswith("["):
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise WebhookUrlRefused("the host is not an IPv6 address") from None
        if "%" in host:
            raise WebhookUrlRefused("the host must not hold a zone")
        return address.compressed, address
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise WebhookUrlRefused("the host is not a name or an address")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return name, ipaddress.IPv4Address(name)
        except ValueError:
            raise WebhookUrlRefused(
                "the host is a number: write an IPv4 address as four decimal numbers"
            ) from None
    return name, None
