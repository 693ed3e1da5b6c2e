"""What of a webhook is secret: sealed as one, opened for one attempt (R134, S-28)."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiosd.application.trust_ports import Redaction, Vault
    from aiosd.domain.webhook import Webhook


@dataclass(frozen=True, slots=True)
class WebhookSecrets:
    """`previous` signs beside `secret` until `previous_until` (ms)."""

    secret: str = field(default="", repr=False)
    credentials: str = field(default="", repr=False)
    notification_token: str = field(default="", repr=False)
    previous: str = field(default="", repr=False)
    previous_until: int = 0

    def signing(self, now: int) -> tuple[str, ...]:
        """Keys of the signatures, the newest first: the secret, else the credentials (X21)."""
        newest = self.secret or self.credentials
        kept = self.previous if now < self.previous_until else ""
        return tuple(key for key in (newest, kept) if key)

    @property
    def values(self) -> tuple[str, ...]:
        """Everything that may never be seen."""
        return tuple(
            value
            for value in (self.secret, self.credentials, self.notification_token, self.previous)
            if value
        )


class WebhookSafe:
    """Seals and opens them."""

    def __init__(self, vault: Vault, redaction: Redaction) -> None:
        self._vault = vault
        self._redaction = redaction

    def seal(self, webhook: Webhook, secrets: WebhookSecrets) -> bytes:
        """For the store."""
        text = json.dumps(asdict(secrets)).encode()
        return self._vault.seal(secret_id(webhook), webhook.principal, text)

    def open(self, webhook: Webhook, sealed: bytes) -> WebhookSecrets:
        """From the store; raises SecretUnreadable."""
        if not sealed:
            return WebhookSecrets()
        text = self._vault.open(secret_id(webhook), webhook.principal, sealed)
        return WebhookSecrets(**json.loads(text))

    @contextmanager
    def hidden(self, secrets: WebhookSecrets) -> Iterator[None]:
        """Inside, no log line shows any of them."""
        for value in secrets.values:
            self._redaction.register(value)
        try:
            yield
        finally:
            for value in secrets.values:
                self._redaction.forget(value)


def secret_id(webhook: Webhook) -> str:
    """The row that holds a webhook's secrets."""
    return f"webhook:{webhook.task_id}:{webhook.id}"
