"""The table `[per_principal]`: what one caller may hold (S-20)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class PrincipalSettings(BaseModel):
    """Bounds of every principal but the daemon's owner."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    creates_per_second: int = Field(
        default=50,
        ge=1,
        le=1_000_000,
        description="Things that one principal may make in a second in the long run: tasks, "
        "operations, webhooks, subscriptions, sessions, permission requests. More are answered "
        "with RATE_LIMITED and a time to wait. The daemon's owner is exempt from this table.",
    )
    create_burst: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Things that one principal may make at once after a rest.",
    )
    open_tasks: int = Field(
        default=10_000,
        ge=1,
        le=100_000_000,
        description="Tasks of one principal that have not ended; a creation beyond is refused.",
    )
    artifact_bytes: int = Field(
        default=1 << 30,
        ge=1,
        le=1 << 50,
        description="Bytes of artifacts that are kept for one principal; a chunk beyond is "
        "refused until tasks are forgotten.",
    )
    subscriptions: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Live streams of events that one principal may have open.",
    )
    webhooks: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Webhooks that the open tasks of one principal may have in all; one task "
        "has at most 10.",
    )
