"""The head of a request as the guards read it: repeated headers are seen, never merged."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from starlette.types import Scope

QUERY_CREDENTIALS: Final = frozenset(
    {"access_token", "api_key", "apikey", "auth_token", "authorization", "bearer", "token"}
)
"""Query parameters that would put a credential into logs and histories (S-08)."""

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]{1,4096}=*)", re.IGNORECASE)
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})
_OVERHEAD_OF_A_HEADER: Final = 4  # ": " and CR LF
_OVERHEAD_OF_A_LINE: Final = 12  # two spaces, "HTTP/1.1", CR LF


class RequestHead:
    """One request without its body. Header names are lower-case bytes, as ASGI has them.

    `content_length` is the announced length of the body in bytes, None for chunks and for none;
    `has_body` says whether bytes follow the head.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.is_websocket: bool = scope["type"] == "websocket"
        self.method: str = "GET" if self.is_websocket else scope["method"]
        self.path: str = scope["path"]
        server: tuple[str, int | None] | None = scope.get("server")
        self.port: int | None = server[1] if server else None
        # A WebSocket is asked for over HTTP, and its page has an HTTP origin.
        self.scheme = "https" if scope["scheme"] in {"https", "wss"} else "http"
        self.headers: dict[bytes, list[bytes]] = {}
        self.header_bytes = 0
        for name, value in scope["headers"]:
            self.headers.setdefault(name, []).append(value)
            self.header_bytes += len(name) + len(value) + _OVERHEAD_OF_A_HEADER
        length = self.only(b"content-length")
        self.content_length = int(length) if length is not None and length.isdecimal() else None
        self.has_body = bool(self.content_length) or b"transfer-encoding" in self.headers

    @property
    def line_bytes(self) -> int:
        """Length of the request line."""
        target = len(self.scope.get("raw_path") or self.path.encode())
        query = len(self.scope["query_string"])
        return len(self.method) + target + (query and query + 1) + _OVERHEAD_OF_A_LINE

    @property
    def waits_to_send(self) -> bool:
        """Whether the client keeps its body back until it is told to go on."""
        return b"expect" in self.headers

    @property
    def request_id(self) -> str:
        """The client's own id of the request if it is fit for a log, else a new one."""
        value = self.only(b"aios-request-id") or self.only(b"x-request-id") or ""
        return value if _REQUEST_ID.fullmatch(value) else secrets.token_hex(16)

    def only(self, name: bytes) -> str | None:
        """The value of a header that occurs exactly once."""
        values = self.headers.get(name, [])
        return values[0].decode("latin-1") if len(values) == 1 else None

    def bearer(self) -> str | None:
        """The token of `Authorization: Bearer ...`; None if it is missing, repeated or odd."""
        return bearer_of(self.only(b"authorization") or "")

    def has_credential_in_query(self) -> bool:
        """Whether a query parameter is named like a credential."""
        query: bytes = self.scope["query_string"]
        return bool(query) and any(
            unquote_plus(pair.partition("=")[0]).lower() in QUERY_CREDENTIALS
            for pair in query.decode("latin-1").split("&")
        )

    def has_media_type(self, allowed: frozenset[str]) -> bool:
        """Whether the body is declared as what may be read here.

        An empty body needs no Content-Type. With one it is held to it: forms, which pages of
        other origins can send without asking, are refused whether or not they are empty (S-14).
        """
        if not self.has_body and b"content-type" not in self.headers:
            return True
        if not self.has_body and self.method not in _BODY_METHODS:
            return True
        if self.headers.get(b"content-encoding", [b"identity"]) != [b"identity"]:
            return False
        media_type, _, parameters = (self.only(b"content-type") or "").lower().partition(";")
        return media_type.strip() in allowed and _is_utf8(parameters)


def bearer_of(authorization: str) -> str | None:
    """The token of an authorization; None for another scheme or an odd token."""
    match = _BEARER.fullmatch(authorization)
    return match[1] if match else None


def _is_utf8(parameters: str) -> bool:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in {"utf-8", "utf8"}:
            return False
    return True
