"""Remembered subscriptions: any gateway process can serve their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.application.access import own
from aiosd.application.errors import SubscriptionNotFound
from aiosd.application.watch import Batch, check_cursor
from aiosd.application.writes import DropSubscription, PutSubscription, Subscription

if TYPE_CHECKING:
    from aiosd.application.access import Caller
    from aiosd.application.ledger import Ledger
    from aiosd.application.ports import Clock, Ids, Registry, Store
    from aiosd.application.wakeups import Wakeups
    from aiosd.application.watch import Watch
    from aiosd.domain.event import EventFamily

MISSED = 1000


class Subscriptions:
    """Create, read, delete; streams are Watch.follow."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        ledger: Ledger,
        watch: Watch,
        wakeups: Wakeups,
        ids: Ids,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._ledger = ledger
        self._watch = watch
        self._wakeups = wakeups
        self._ids = ids
        self._clock = clock

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
        await self._store.commit([PutSubscription(subscription)])
        return subscription, batch

    async def get(self, caller: Caller, subscription_id: str) -> Subscription:
        """A subscription of the caller; raises SubscriptionNotFound."""
        found = await self._registry.subscription(subscription_id)
        if found is None or not caller.principal or found.principal != caller.principal:
            raise SubscriptionNotFound
        return found

    async def delete(self, caller: Caller, subscription_id: str) -> None:
        """Forget it and end its streams; the task goes on (R072)."""
        await self.get(caller, subscription_id)
        await self._store.commit([DropSubscription(subscription_id)])
        self._wakeups.notify(subscription_id)
