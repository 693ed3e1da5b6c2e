"""What providers can do, and how a request's defaults follow from it (design.md 8)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.retry import RetryPolicy

if TYPE_CHECKING:
    from aiosd.domain.task import Options

_ID = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*")
SYNCHRONOUS_TIMEOUT_MS = 30_000


class PermissionLevel(IntEnum):
    """How much trust a capability asks for (R114)."""

    PUBLIC = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    CRITICAL = 5


@dataclass(frozen=True, slots=True)
class Capability:
    """What a provider said of itself; 0 and empty mean not declared."""

    id: str
    level: PermissionLevel
    name: str = ""
    description: str = ""
    version: str = ""
    tool_id: str = ""
    input_schema: str = ""
    output_schema: str = ""
    permissions: tuple[str, ...] = ()
    pausable: bool = False
    retry_safe: bool = False
    default_timeout_ms: int = 0
    estimated_duration_ms: int = 0
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    update_time: int = 0

    def __post_init__(self) -> None:
        if len(self.id) > 200 or not _ID.fullmatch(self.id):
            raise ArgumentInvalid(
                "capability_id", "must be dotted lower-case words, at most 200 characters"
            )

    @property
    def tool(self) -> str:
        """What `max_tasks_per_tool` counts (X39)."""
        return self.tool_id or self.id

    @property
    def permission_ids(self) -> tuple[str, ...]:
        """What must be granted before it runs."""
        return self.permissions or (f"aios.permission.{self.id}",)


def fill_options(
    asked: Options,
    capability: Capability,
    *,
    retry_named: bool,
    default_timeout_ms: int,
    retry_safe_attempts: int,
) -> Options:
    """The options with defaults filled in (R097; lost retry-safe work is tried again)."""
    timeout = asked.timeout_ms or capability.default_timeout_ms
    if not timeout:
        timeout = SYNCHRONOUS_TIMEOUT_MS if asked.synchronous else default_timeout_ms
    retry_safe = asked.retry_safe or capability.retry_safe
    retry = asked.retry
    if not retry_named:
        retry = RetryPolicy(retry_safe_attempts if retry_safe else 1, asked.retry.delay_ms)
    return replace(asked, timeout_ms=timeout, retry_safe=retry_safe, retry=retry)
