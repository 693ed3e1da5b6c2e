"""Interruptions as resume records (Z14, R183), and what may answer them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from aiosd.domain.content import Message, Option, PartKind
from aiosd.domain.errors import AuthRejected, CredentialRefused, InputRejected


class NeedKind(IntEnum):
    """What is needed; business data and authorization never stand for each other (R181)."""

    BUSINESS_INPUT = 1
    HUMAN_APPROVAL = 2
    MACHINE_CREDENTIAL = 3

    @property
    def waiting_for(self) -> str:
        """The word of `data.waiting_for` (design.md 15)."""
        return ("input", "approval", "auth")[self - 1]


class AuthType(IntEnum):
    """What sort of authorization (R108, X35)."""

    OAUTH2 = 1
    API_KEY = 2
    PASSWORD = 3
    CERTIFICATE = 4
    APPROVAL = 5


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """The authorization that a task asks for."""

    type: AuthType
    provider: str = ""
    authorization_url: str = ""
    scopes: tuple[str, ...] = ()
    reason: str = ""
    permission_level: str = ""
    permissions: tuple[str, ...] = ()
    permission_scope: str = ""
    confirmations_required: int = 0
    confirmations: int = 0


@dataclass(frozen=True, slots=True)
class Interruption:
    """Why a task waits, for whom, until when, and from where it goes on."""

    interruption_id: str
    kind: NeedKind
    action: str
    prompt: str = ""
    options: tuple[Option, ...] = ()
    schema: str = ""
    auth_request: AuthRequest | None = None
    satisfiable_by: tuple[str, ...] = ()
    scope: str = ""
    create_time: int = 0
    expire_time: int = 0
    timeout_ms: int = 0
    attempt: int = 0
    report_number: int = 0


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """An answer that is kept for a repetition of the same question; `attempt` asked it."""

    action: str
    prompt: str
    input: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """A credential or a decision. Lives in memory only; its repr says nothing (R113)."""

    type: AuthType
    authorization_code: str = field(default="", repr=False)
    state: str = field(default="", repr=False)
    code_verifier: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    approve: bool = False
    confirmation_id: str = field(default="", repr=False)

    @property
    def secrets(self) -> frozenset[str]:
        """The values that nobody but the attempt that asked may see."""
        named = (
            self.authorization_code,
            self.code_verifier,
            self.api_key,
            self.password,
            self.certificate,
        )
        return frozenset(value for value in named if value)


HIDDEN = "***"
_CREDENTIAL_KEY = re.compile(
    r"(^|[_\-.])(password|passwd|secret|api[_-]?key|access[_-]?token|refresh[_-]?token|auth[_-]?token"
    r"|private[_-]?key|credentials?|client[_-]?secret|authorization|token)($|[_\-.])",
    re.IGNORECASE,
)
_CREDENTIAL_VALUE = re.compile(
    r"^(Bearer\s+\S{8,}|Basic\s+[A-Za-z0-9+/=]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
    r"|(sk|ghp|gho|xoxb|xoxp|aios)[-_][A-Za-z0-9_\-]{16,})$",
    re.DOTALL,
)


def refuse_credentials(value: object, where: str) -> None:
    """Raise CredentialRefused if JSON content looks like a credential (R182, Z12).

    Keys that name one and values in a well-known credential form count; nothing of the value is
    repeated in the refusal.
    """
    if isinstance(value, dict):
        for key, member in value.items():
            if _CREDENTIAL_KEY.search(str(key)) and isinstance(member, str) and member:
                raise CredentialRefused(
                    "credentials are not accepted as input; use authenticate",
                    {"field": f"{where}.{key}"},
                )
            refuse_credentials(member, f"{where}.{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            refuse_credentials(member, f"{where}[{index}]")
    elif isinstance(value, str) and _CREDENTIAL_VALUE.match(value.strip()):
        raise CredentialRefused(
            "credentials are not accepted as input; use authenticate", {"field": where}
        )


def refuse_message_credentials(message: Message) -> None:
    """Raise CredentialRefused if a part of a message looks like a credential (R182, Z12)."""
    for index, part in enumerate(message.parts):
        where = f"message.parts[{index}]"
        content = json.loads(part.content) if part.kind is PartKind.DATA else part.content
        refuse_credentials(content, where)


def hide_credentials(text: str) -> str:
    """JSON text without the credentials in it: `***` stands for each (H25).

    For metadata, which is shown to everybody who may see a task. Text that holds none stays as it
    is, byte for byte.
    """
    value = json.loads(text)
    hidden = _hidden(value)
    return text if hidden == value else json.dumps(hidden, ensure_ascii=False)


def _hidden(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: HIDDEN
            if isinstance(member, str) and member and _CREDENTIAL_KEY.search(str(key))
            else _hidden(member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [_hidden(member) for member in value]
    if isinstance(value, str) and _CREDENTIAL_VALUE.match(value.strip()):
        return HIDDEN
    return value


def check_options(interruption: Interruption, answer: dict[str, Any]) -> None:
    """Some member of the answer must equal the id or value of an offered option (design.md 15).

    Applies only where options are offered and no schema is; raises InputRejected.
    """
    if not interruption.options or interruption.schema:
        return
    accepted: list[object] = [option.id for option in interruption.options]
    accepted += [json.loads(option.value) for option in interruption.options if option.value]
    for member in answer.values():
        # bool is an int in Python but not in JSON.
        if any(type(member) is type(one) and member == one for one in accepted):
            return
    raise InputRejected(
        "input: no member equals an offered option",
        {
            "field": "input",
            "problem": "must contain the id or value of an offered option",
            "options": ",".join(option.id for option in interruption.options),
        },
    )


def check_auth(request: AuthRequest, response: AuthResponse) -> None:
    """The response must be of the type asked for and complete; raises AuthRejected."""
    if response.type is not request.type:
        raise AuthRejected(
            f"auth_response.type: must be {request.type.name.lower()}",
            {"field": "auth_response.type"},
        )
    required = {
        AuthType.OAUTH2: ("authorization_code", "state"),
        AuthType.API_KEY: ("api_key",),
        AuthType.PASSWORD: ("username", "password"),
        AuthType.CERTIFICATE: ("certificate",),
        AuthType.APPROVAL: (),
    }[request.type]
    for name in required:
        if not getattr(response, name):
            raise AuthRejected(
                f"auth_response.{name}: is required", {"field": f"auth_response.{name}"}
            )
