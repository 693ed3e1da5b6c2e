"""How often work is tried, and when a lost or failed attempt may be repeated (X06, R099, R100)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts all executions, the first included; `delay_ms` lies between them."""

    max_attempts: int = 1
    delay_ms: int = 0

    def attempts_left(self, attempt: int) -> bool:
        """Whether another execution may follow execution number `attempt`."""
        return attempt < self.max_attempts
