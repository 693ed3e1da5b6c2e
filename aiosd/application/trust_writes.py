"""What a commit may contain of webhooks, secrets and the audit; part of writes.Write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiosd.domain.audit import AuditRecord
from aiosd.domain.webhook import Delivery, Webhook


@dataclass(frozen=True, slots=True)
class PutWebhook:
    """Insert or replace a webhook of a task; its pending deliveries stay."""

    webhook: Webhook


@dataclass(frozen=True, slots=True)
class DropWebhook:
    """Delete a webhook with its deliveries; harmless when it is gone."""

    task_id: str
    webhook_id: str


@dataclass(frozen=True, slots=True)
class AddDelivery:
    """Put a delivery into the outbox; those of one webhook are posted in the order they came."""

    delivery: Delivery
    principal: str
    content: bytes


@dataclass(frozen=True, slots=True)
class UpdateDelivery:
    """Replace what is known of a delivery; refused when it is gone or was tried meanwhile.

    The content of one that succeeded is forgotten.
    """

    delivery: Delivery
    expected_attempts: int


@dataclass(frozen=True, slots=True)
class PutSecret:
    """Insert or replace a sealed secret that lives as long as its task (S-28)."""

    id: str
    task_id: str
    sealed: bytes


@dataclass(frozen=True, slots=True)
class DropSecret:
    """Delete a secret; harmless when it is gone."""

    id: str


@dataclass(frozen=True, slots=True)
class AppendAudit:
    """Records for the audit chain; the writer gives them their place and their hash (S-32)."""

    records: tuple[AuditRecord, ...]


TrustWrite: TypeAlias = (
    PutWebhook | DropWebhook | AddDelivery | UpdateDelivery | PutSecret | DropSecret | AppendAudit
)
