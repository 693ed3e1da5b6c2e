"""One request of this wire: what it asks, read strictly, and its way to the daemon."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from gateway import strict_json
from gateway.aios.params import Params, problem_of
from gateway.context import GatewayContext, caller_of
from gateway.daemon_channel import CALL_TIMEOUT_S, Caller, DaemonError
from gateway.openapi.errors import ApiError, from_daemon, invalid_param

if TYPE_CHECKING:
    from collections.abc import Collection

    from grpc import aio

    from gateway.daemon_channel import DaemonChannel

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
ModelT = TypeVar("ModelT", bound=Params)

MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50
_KEY: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,256}")
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_NOT_IN_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_MAX_ID: Final = 200
_ENCODING_KINDS: Final = ("encoding", "syntax")


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    request: Request
    context: GatewayContext
    caller: Caller

    @classmethod
    def of(cls, request: Request, context: GatewayContext) -> Call:
        """The call that a request makes."""
        return cls(request, context, caller_of(request))

    @property
    def daemon(self) -> DaemonChannel:
        """The daemon's stubs."""
        return self.context.daemon

    async def ask(
        self,
        method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT],
        request: RequestT,
        *,
        wait_ms: int = 0,
        repeatable: bool = False,
    ) -> ResponseT:
        """Call the daemon, which may take `wait_ms` longer than usual. Raises ApiError."""
        try:
            return await self.daemon.call(
                method,
                request,
                self.caller,
                timeout_s=CALL_TIMEOUT_S + wait_ms / 1000,
                repeatable=repeatable,
            )
        except DaemonError as refused:
            raise from_daemon(refused) from None

    async def read(
        self, method: aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        """Call the daemon for something that changes nothing. Raises ApiError."""
        return await self.ask(method, request, repeatable=True)

    async def body(self, model: type[ModelT]) -> ModelT:
        """The body; an absent one is an empty object. Raises ApiError that names the field."""
        raw = await self.request.body()
        try:
            value = strict_json.loads(raw) if raw.strip() else {}
        except strict_json.StrictJsonError as refused:
            code = "invalid_json" if refused.kind in _ENCODING_KINDS else "invalid_body"
            raise ApiError(400, code, f"the body: {refused.message}") from None
        if not isinstance(value, dict):
            raise ApiError(400, "invalid_body", "the body must be a JSON object")
        try:
            return model.model_validate(value)
        except ValidationError as refused:
            first = refused.errors(include_url=False, include_input=False)[0]
        problem = problem_of(first)
        code = "missing_param" if first["type"] == "missing" else "invalid_param"
        raise ApiError(400, code, problem["details"], _without_branch(problem["field"]))

    def path_id(self, name: str) -> str:
        """An id of the path. What no id can be is answered by whoever looks it up."""
        value = str(self.request.path_params[name])
        if len(value) > _MAX_ID or _NOT_IN_TEXT.search(value):
            raise invalid_param(name, f"must have at most {_MAX_ID} characters")
        return value

    def query(self, name: str) -> str | None:
        """A query parameter that may be given once; None if it is not, or is empty."""
        values = self.request.query_params.getlist(name)
        if len(values) > 1:
            raise invalid_param(name, "must be given once")
        if not values or not values[0]:
            return None
        if len(values[0]) > 1024 or _NOT_IN_TEXT.search(values[0]):
            raise invalid_param(name, "must have at most 1024 characters")
        return values[0]

    def one_of(self, name: str, words: Collection[str]) -> str | None:
        """A query parameter that is one of some words."""
        value = self.query(name)
        if value is not None and value not in words:
            raise invalid_param(name, f"must be one of {', '.join(words)}")
        return value

    def limit(self) -> int:
        """How long a page is."""
        value = self.query("limit")
        if value is None:
            return DEFAULT_LIMIT
        if not value.isascii() or not value.isdecimal() or len(value) > 4:
            raise invalid_param("limit", f"must be a number in 1..{MAX_LIMIT}")
        if not 1 <= int(value) <= MAX_LIMIT:
            raise invalid_param("limit", f"must be in 1..{MAX_LIMIT}")
        return int(value)

    def idempotency_key(self, given: str | None) -> str | None:
        """The key of the header or of the body; both only when they are the same."""
        header = self.request.headers.getlist("idempotency-key")
        if not header:
            return given
        if len(header) > 1 or not _KEY.fullmatch(header[0]):
            raise invalid_param(
                "idempotency_key", "must be 1..128 printable characters in one header"
            )
        if given is not None and given != header[0]:
            raise invalid_param("idempotency_key", "differs from the header Idempotency-Key")
        return header[0]

    def after(self, *, query_name: str = "") -> int:
        """Where a stream goes on: after Last-Event-ID, else after the query parameter, else 0."""
        headers = self.request.headers.getlist("last-event-id")
        if headers:
            if len(headers) > 1 or not _NUMBER.fullmatch(headers[0]):
                raise invalid_param("Last-Event-ID", "must be an event id of this stream")
            return int(headers[0])
        value = self.query(query_name) if query_name else None
        if value is None:
            return 0
        if not _NUMBER.fullmatch(value):
            raise invalid_param(query_name, "must be a number that is not negative")
        return int(value)


def seal(kind: str, token: str) -> str | None:
    """A cursor that says nothing to its reader; None at the end."""
    return base64.urlsafe_b64encode(f"{kind}:{token}".encode()).decode() if token else None


def unseal(kind: str, cursor: str | None) -> str:
    """The token in a cursor. Raises ApiError for what `seal` never wrote for this list."""
    if cursor is None:
        return ""
    try:
        opened = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        opened = ""
    found, separator, token = opened.partition(":")
    if found != kind or not separator or not _TOKEN.fullmatch(token):
        raise invalid_param("cursor", "must be the next_cursor of an earlier answer")
    return token


def _without_branch(field: str) -> str:
    """A field's path without the name of the alternative that pydantic tried."""
    return re.sub(r"\.(?:MessageBody|constrained-str|dict\[[^]]*\]|str)(?=\.|$)", "", field)
