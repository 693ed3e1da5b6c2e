"""What a caller asks for when it registers a webhook, and whether that can be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.webhook import FILTER_WORDS, WebhookFormat

MOST_FILTERS = 32
#: Members that no fingerprint, log or record may hold.
SECRET_MEMBERS = ("auth_credentials", "secret", "notification_token")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_HEADER_TEXT = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_ID = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """What a caller asks for; empty and None mean unset."""

    url: str
    events: tuple[str, ...] = ()
    webhook_id: str = ""
    auth_scheme: str = ""
    auth_credentials: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    notification_token: str = field(default="", repr=False)
    max_retries: int | None = None
    retry_delay_ms: int | None = None
    format: WebhookFormat = WebhookFormat.AIOS
    tenant: str = ""


def check(new: NewWebhook, where: str) -> None:
    """Shapes and sizes; raises ArgumentInvalid that names the member."""

    def refuse(member: str, problem: str) -> ArgumentInvalid:
        return ArgumentInvalid(f"{where}.{member}", problem)

    if len(new.events) > MOST_FILTERS or any(word not in FILTER_WORDS for word in new.events):
        raise refuse("events", f"must be among {', '.join(sorted(FILTER_WORDS))}")
    if new.webhook_id and not _ID.fullmatch(new.webhook_id):
        raise refuse("webhook_id", "must be 1..128 printable ASCII characters")
    if new.auth_scheme and not _SCHEME.fullmatch(new.auth_scheme):
        raise refuse("auth_scheme", "must be an HTTP authentication scheme")
    if new.auth_credentials and not new.auth_scheme:
        raise refuse("auth_scheme", "is required with auth_credentials")
    for member, value in (
        ("auth_credentials", new.auth_credentials),
        ("notification_token", new.notification_token),
    ):
        if value and (len(value) > 4096 or not _HEADER_TEXT.fullmatch(value)):
            raise refuse(member, "must be 1..4096 printable ASCII characters")
    if new.secret and not (16 <= len(new.secret) <= 256 and new.secret.isprintable()):
        raise refuse("secret", "must be 16..256 printable characters")
    if new.max_retries is not None and not 0 <= new.max_retries <= 20:
        raise refuse("max_retries", "must be 0..20")
    if len(new.tenant) > 256:
        raise refuse("tenant", "must not exceed 256 characters")
