"""What webhooks, secrets and the audit need of the world, beside ports.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aiosd.domain.webhook import Delivery, DeliveryState, Webhook

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from aiosd.domain.audit import Head, SealedRecord
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task
    from aiosd.domain.webhook import Answer, WebhookFormat


@dataclass(frozen=True, slots=True)
class Due:
    """The oldest pending delivery of a webhook, and when it is to be posted."""

    task_id: str
    webhook_id: str
    delivery_id: str
    endpoint: str
    due_time: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """All that one attempt needs."""

    delivery: Delivery
    webhook: Webhook
    content: bytes
    sealed: bytes
    trace_parent: str


@dataclass(frozen=True, slots=True)
class DeliveryQuery:
    """Filters joined by AND; empty or None means no filter. Newest first.

    `before` is the row number of the last one of the page before, 0 for the first page.
    """

    principal: str
    task_id: str = ""
    state: DeliveryState | None = None
    before: int = 0
    limit: int = 50


class Outbox(Protocol):
    """Webhooks, what is to be posted to them, and their secrets."""

    async def webhooks(self, task_id: str) -> Sequence[Webhook]:
        """All of a task, in the order they were registered."""
        ...

    async def due_deliveries(self, resting: Collection[str], limit: int) -> Sequence[Due]:
        """The head of each webhook's pending deliveries, soonest first, later ones too.

        Webhooks whose endpoint is in `resting` are passed over.
        """
        ...

    async def outgoing(self, delivery_id: str) -> Outgoing | None:
        """What is needed to post a pending delivery; None if it is not pending any more."""
        ...

    async def delivery(self, delivery_id: str, principal: str) -> Delivery | None:
        """One of the principal's deliveries."""
        ...

    async def deliveries(self, query: DeliveryQuery) -> Sequence[tuple[int, Delivery]]:
        """Row number and delivery."""
        ...

    async def secret(self, secret_id: str) -> bytes | None:
        """A sealed secret."""
        ...


class AuditTrail(Protocol):
    """The chain; only `commit` writes it."""

    async def audit_records(
        self, task_id: str, event: str, after: int, limit: int
    ) -> Sequence[SealedRecord]:
        """Records with a sequence above `after`, in order; empty filters select all."""
        ...

    async def audit_head(self) -> Head:
        """The newest record's place and hash."""
        ...


class AnchorBroken(Exception):
    """The anchored head is not one that this daemon wrote."""


class Anchor(Protocol):
    """The head of the audit chain, kept outside the store (S-33)."""

    async def read(self) -> Head | None:
        """The head that was anchored last; None if there is none. Raises AnchorBroken."""
        ...

    async def write(self, head: Head) -> None:
        """Anchor a head, durably."""
        ...


class Vault(Protocol):
    """Seals secrets with a key that is not in the store (S-28)."""

    def seal(self, secret_id: str, principal: str, secret: bytes) -> bytes:
        """Bound to the id and the principal: it opens under no other name."""
        ...

    def open(self, secret_id: str, principal: str, sealed: bytes) -> bytes:
        """Raises SecretUnreadable: another key, another name, or changed bytes."""
        ...


class SecretUnreadable(Exception):
    """The key is not the one that sealed it; there is no way around that."""


class Redaction(Protocol):
    """Knows live secrets and the names of secret members (S-31)."""

    def register(self, secret: str) -> None:
        """Mask this value from now on."""
        ...

    def forget(self, secret: str) -> None:
        """One `register` less."""
        ...

    def text(self, text: str) -> str:
        """Plain text with secrets masked."""
        ...

    def document(self, text: str) -> str:
        """JSON text with secrets masked, members named like secrets too."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook URL that may be used: its endpoint, and how it may be shown."""

    endpoint: str
    shown: str


class WebhookSender(Protocol):
    """Posts, and guards where to (S-22..S-24, S-26)."""

    def check(self, url: str) -> Target:
        """What a URL means; raises WebhookUrlRefused. Resolves nothing."""
        ...

    async def send(self, url: str, headers: Sequence[tuple[str, str]], content: bytes) -> Answer:
        """One attempt, within its deadlines; never raises for what the network does."""
        ...


@dataclass(frozen=True, slots=True)
class Rendered:
    """An event as a receiver of one format gets it."""

    event: str
    content: bytes


class WebhookBodies(Protocol):
    """Writes events in the formats of webhooks."""

    def render(self, form: WebhookFormat, task: Task, event: Event) -> Rendered | None:
        """The body of an event; None for what the format does not tell.

        `task` is the task as the event's commit leaves it.
        """
        ...

    def supports(self, form: WebhookFormat) -> bool:
        """Whether there is a renderer for it."""
        ...

    def content_type(self, form: WebhookFormat) -> str:
        """Of every body of that format."""
        ...


@dataclass(frozen=True, slots=True)
class Trust:
    """The ports of this file that are no store, and the key of the audit chain."""

    vault: Vault
    redaction: Redaction
    sender: WebhookSender
    bodies: WebhookBodies
    anchor: Anchor
    audit_key: bytes
