"""The settings that rules depend on, as plain numbers (design.md 14)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults are those of design.md 14; times in milliseconds, 0 means none."""

    max_concurrent_tasks: int = 10
    max_tasks_per_tool: int = 3
    max_queue_size: int = 100
    default_timeout_ms: int = 0
    sync_wait_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    lease_ms: int = 15_000
    reattach_window_ms: int = 30_000
    offer_timeout_ms: int = 5_000
    cancel_grace_ms: int = 5_000
    pause_timeout_ms: int = 5_000
    input_timeout_ms: int = 0
    auth_timeout_ms: int = 300_000
    approval_timeout_ms: int = 60_000
    event_retention: int = 100_000
    task_retention_hours: int = 720
    idempotency_retention_hours: int = 24
    retry_safe_attempts: int = 3
    drain_grace_ms: int = 5_000
    max_message_bytes: int = 1_048_576
    max_batch_size: int = 100
