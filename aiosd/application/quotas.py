"""What one principal may hold and how fast it may make more (S-20).

Counted in memory and loaded once at the start, so that a check costs one look into a dictionary.
Exempt principals, the owner of the daemon, are not counted at all: they set the bounds, and what
protects the daemon from them are its bounds for everybody.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiosd.application.errors import QueueFull, RateLimited, TooManyWebhooks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from aiosd.application.access_ports import Holdings
    from aiosd.application.ports import Clock
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Quota:
    """The bounds of one principal; defaults are those of S-20."""

    creates_per_second: int = 50
    create_burst: int = 100
    open_tasks: int = 10_000
    artifact_bytes: int = 1 << 30
    subscriptions: int = 64
    webhooks: int = 100


@dataclass(slots=True)
class _Account:
    """What a principal holds. `spent` is creations that the passing time has not paid back."""

    open_tasks: int = 0
    artifact_bytes: int = 0
    subscriptions: int = 0
    spent: float = 0.0
    spent_time: int = 0
    #: Of each open task that has any.
    webhooks: dict[str, int] = field(default_factory=dict)
    #: Tasks that are being committed.
    reserved: set[str] = field(default_factory=set)


class Quotas:
    """Accounts of every principal that is not exempt."""

    def __init__(
        self, holdings: Holdings, clock: Clock, quota: Quota, exempt: Collection[str]
    ) -> None:
        self._holdings = holdings
        self._clock = clock
        self._quota = quota
        self._exempt = frozenset(exempt)
        self._accounts: dict[str, _Account] = {}

    async def load(self) -> None:
        """Start from what the store holds."""
        for principal, held in (await self._holdings.holdings(self._exempt)).items():
            self._accounts[principal] = _Account(
                held.open_tasks, held.artifact_bytes, webhooks=dict(held.webhooks)
            )

    # --- checks -----------------------------------------------------------------------------------

    def spend(self, principal: str, count: int = 1) -> None:
        """Account for a call that makes `count` things; raises RateLimited, and then for none.

        A call for more than a whole burst is taken for one burst: it has to pass some time.
        """
        if principal in self._exempt:
            return
        account, quota, now = self._account(principal), self._quota, self._clock.now()
        paid = max(0, now - account.spent_time) * quota.creates_per_second / SECOND_MS
        spent = max(0.0, account.spent - paid)
        cost = min(count, quota.create_burst)
        if spent + cost > quota.create_burst:
            wait = (spent + cost - quota.create_burst) * SECOND_MS / quota.creates_per_second
            raise RateLimited(
                "too many creations at once; wait",
                {
                    "limit": f"{quota.creates_per_second}/s",
                    "burst": str(quota.create_burst),
                    "retry_after_ms": str(int(wait) + 1),
                },
            )
        account.spent, account.spent_time = spent + cost, now

    def reserve(self, principal: str, task_id: str) -> None:
        """Count a task that is about to be committed; raises QueueFull."""
        if principal in self._exempt:
            return
        account, limit = self._account(principal), self._quota.open_tasks
        if account.open_tasks + len(account.reserved) >= limit:
            raise QueueFull(
                f"{principal} has {limit} open tasks", {"limit": str(limit), "of": "principal"}
            )
        account.reserved.add(task_id)

    def release(self, principal: str, task_id: str) -> None:
        """It was committed, and is counted so, or was not."""
        if principal not in self._exempt:
            self._account(principal).reserved.discard(task_id)

    def check_webhook(self, task: Task, count: int = 1) -> None:
        """Raise TooManyWebhooks unless an open task may have `count` more."""
        if task.principal in self._exempt or task.terminal:
            return
        limit = self._quota.webhooks
        if sum(self._account(task.principal).webhooks.values()) + count > limit:
            raise TooManyWebhooks(
                f"{task.principal} has at most {limit} webhooks of open tasks",
                {"limit": str(limit), "of": "principal"},
            )

    def artifact_room(self, principal: str) -> int | None:
        """Bytes by which the artifacts of a principal may grow; None for any number.

        Chunks of several tasks that are committed at the same moment see the same room.
        """
        if principal in self._exempt:
            return None
        return max(0, self._quota.artifact_bytes - self._account(principal).artifact_bytes)

    @contextmanager
    def subscription(self, principal: str) -> Iterator[None]:
        """Count a live stream for as long as it lasts; raises RateLimited."""
        if principal in self._exempt:
            yield
            return
        account, limit = self._account(principal), self._quota.subscriptions
        if account.subscriptions >= limit:
            raise RateLimited(
                f"{principal} has {limit} live subscriptions",
                {"limit": str(limit), "retry_after_ms": str(SECOND_MS)},
            )
        account.subscriptions += 1
        try:
            yield
        finally:
            account.subscriptions -= 1

    # --- what happened ----------------------------------------------------------------------------

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Follow tasks, artifacts and webhooks (Ledger observer)."""
        task = draft.task
        if task.principal in self._exempt:
            return
        account = self._account(task.principal)
        was_open = before is not None and not before.terminal
        account.open_tasks += int(not task.terminal) - int(was_open)
        account.artifact_bytes += draft.artifact_bytes
        if draft.webhook_count:
            account.webhooks[task.id] = draft.webhook_count
        if task.terminal or draft.webhook_count == 0:
            account.webhooks.pop(task.id, None)

    async def held_by(self, task_ids: Sequence[str]) -> Mapping[str, int]:
        """Bytes of artifacts of terminal tasks that are about to be deleted, by principal."""
        return await self._holdings.artifact_bytes(task_ids) if self._accounts and task_ids else {}

    def forgotten(self, freed: Mapping[str, int]) -> None:
        """They are deleted."""
        for principal, count in freed.items():
            if principal in self._accounts:
                account = self._accounts[principal]
                account.artifact_bytes = max(0, account.artifact_bytes - count)

    def _account(self, principal: str) -> _Account:
        account = self._accounts.get(principal)
        if account is None:
            account = self._accounts[principal] = _Account()
        return account
