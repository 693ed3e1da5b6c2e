"""HTTP clients of services on loopback."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

# Loading the certificates of the world takes longer than a whole test, and nothing here is TLS.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http_client(**options: Any) -> httpx.AsyncClient:
    """A client for plain HTTP; `options` are those of httpx.AsyncClient."""
    return httpx.AsyncClient(verify=NO_AUTHORITIES, **options)
