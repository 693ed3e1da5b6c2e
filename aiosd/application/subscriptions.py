"""Remembered subscriptions: any gateway process can serve their streams."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiosd.application.access import own
from aiosd.application.errors import SubscriptionNotFound
from aiosd.application.watch import Batch, check_cursor
from aiosd.application.writes import DropSubscription, PutSubscription, Subscription
from aiosd.domain.task import Task

if TYPE_CHECKING:
    from aiosd.application.access import Caller
    from aiosd.application.audit import Audit
    from aiosd.application.ledger import Ledger
    from aiosd.application.ports import Clock, Ids, Registry, Store
    from aiosd.application.wakeups import Wakeups
    from aiosd.application.watch import Watch
    from aiosd.domain.event import EventFamily

MISSED = 1000
DELETED = 4096


@dataclass(frozen=True, slots=True)
class Followed:
    """A stream that has begun: the task at its start, the cursor, and what follows."""

    task: Task
    after: int
    batches: AsyncIterator[Batch]


class Subscriptions:
    """Create, read, delete; streams are Watch.follow."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        ledger: Ledger,
        watch: Watch,
        wakeups: Wakeups,
        audit: Audit,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._ledger = ledger
        self._watch = watch
        self._wakeups = wakeups
        self._audit = audit
        self._ids = ids
        self._clock = clock
        #: The newest deletions, so that live streams of them end.
        self._deleted: OrderedDict[str, None] = OrderedDict()

    async def create(
        self,
        caller: Caller,
        task_id: str,
        families: tuple[EventFamily, ...],
        after: int | None,
        *,
        missed: bool,
    ) -> tuple[Subscription, Batch]:
        """Remember a subscription; with `missed`, also the events between `after` and its start.

        `after` None means the head. Raises TaskNotFound, CursorInvalid.
        """
        caller.require("task:read")
        task = own(caller, await self._ledger.load(task_id))
        start = task.event_head if after is None else after
        check_cursor(task, start)
        batch = Batch((), start)
        if missed:
            batch = await self._watch.page(task_id, start, MISSED)
            wanted = frozenset(families)
            kept = tuple(one for one in batch.events if not wanted or one.family in wanted)
            batch = Batch(kept, batch.cursor, batch.truncated, batch.oldest)
        subscription = Subscription(
            self._ids.new("sub"),
            task_id,
            caller.principal,
            families,
            batch.cursor,
            self._clock.now(),
        )
        details = {"subscription_id": subscription.id, "after": subscription.after}
        made = self._audit.of("subscription.created", task=task, details=details)
        await self._store.commit([PutSubscription(subscription), made])
        return subscription, batch

    async def get(self, caller: Caller, subscription_id: str) -> Subscription:
        """A subscription of the caller; raises SubscriptionNotFound."""
        found = await self._registry.subscription(subscription_id)
        if found is None or not caller.principal or found.principal != caller.principal:
            raise SubscriptionNotFound
        return found

    async def follow_task(
        self,
        caller: Caller,
        task_id: str,
        after: int | None,
        families: tuple[EventFamily, ...],
        *,
        parts: bool = False,
    ) -> Followed:
        """Follow a task; `after` None begins after the head. TaskNotFound, CursorInvalid."""
        caller.require("task:read")
        task = own(caller, await self._ledger.load(task_id))
        start = task.event_head if after is None else after
        check_cursor(task, start)
        batches = self._watch.follow(task_id, start, families=frozenset(families), parts=parts)
        return Followed(task, start, batches)

    async def follow(
        self, caller: Caller, subscription_id: str, after: int | None, *, parts: bool = False
    ) -> Followed:
        """Follow a remembered subscription, until its task or it itself ends (R072)."""
        found = await self.get(caller, subscription_id)
        start = found.after if after is None else after
        task = own(caller, await self._ledger.load(found.task_id))
        check_cursor(task, start)
        batches = self._watch.follow(
            task.id,
            start,
            families=frozenset(found.families),
            parts=parts,
            ended=lambda: subscription_id in self._deleted,
        )
        return Followed(task, start, batches)

    async def delete(self, caller: Caller, subscription_id: str) -> None:
        """Forget it and end its streams; the task goes on (R072)."""
        found = await self.get(caller, subscription_id)
        task = await self._ledger.load(found.task_id)
        details = {"subscription_id": subscription_id}
        ended = self._audit.of("subscription.removed", task=task, details=details)
        await self._store.commit([DropSubscription(subscription_id), ended])
        self._deleted[subscription_id] = None
        if len(self._deleted) > DELETED:
            self._deleted.popitem(last=False)
        self._wakeups.notify(found.task_id)
