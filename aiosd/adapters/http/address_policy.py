"""Which addresses a webhook may reach (S-23). Decided on addresses, never on names.

`is_global` of the standard library says yes to 224.0.0.1, 64:ff9b::7f00:1 and others (E24), so
what is denied is listed here, and whatever is not global is denied besides.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_DENIED = {
    ipaddress.ip_network(text): why
    for text, why in (
        ("0.0.0.0/8", "this host"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.88.99.0/24", "6to4 relays"),
        ("198.18.0.0/15", "benchmarks"),
        ("240.0.0.0/4", "reserved"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("2001::/32", "Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("fc00::/7", "unique local"),
        ("fec0::/10", "site local"),
        ("ff00::/8", "multicast"),
    )
}


def why_denied(address: Address) -> str:
    """Empty if the address may be reached, else what it is."""
    address = plain(address)
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    for network, why in _DENIED.items():
        if address.version == network.version and address in network:
            return why
    if address.is_private:
        return "private"
    return "" if address.is_global and not address.is_reserved else "not global"


def plain(address: Address) -> Address:
    """An IPv4 address that came mapped into IPv6, as itself."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


class Allowlist:
    """What the operator lets through although it is private or plain http (`webhook_allow`)."""

    def __init__(self, targets: tuple[str, ...]) -> None:
        self._targets: set[str] = set()
        self._networks: list[Network] = []
        for text in targets:
            try:
                self._networks.append(ipaddress.ip_network(text))
            except ValueError:
                self._targets.add(text.lower())

    def names(self, host: str, port: int) -> bool:
        """Whether this host and port are named."""
        spelled = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return spelled.lower() in self._targets

    def covers(self, address: Address) -> bool:
        """Whether an address is in an allowed network."""
        address = plain(address)
        return any(
            address.version == network.version and address in network for network in self._networks
        )
