"""The port Runtimes over records in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.adapters.memory.records import Records
    from aiosd.application.ports import OperationQuery
    from aiosd.domain.instance import Instance
    from aiosd.domain.operation import Operation, OperationEvent


class RuntimeReads:
    """What the store in memory knows of operations and instances."""

    _records: Records

    async def operation(self, operation_id: str) -> Operation | None:
        """An operation by id."""
        return self._records.operations.get(operation_id)

    async def operations(self, query: OperationQuery) -> Sequence[Operation]:
        """A page of operations, newest first."""
        found = [
            one
            for one in self._records.operations.values()
            if (not query.principal or one.request.principal == query.principal)
            and (not query.instance_id or one.request.instance_id == query.instance_id)
            and (not query.active or not one.terminal)
            and (not query.before or one.id < query.before)
        ]
        return sorted(found, key=lambda one: one.id, reverse=True)[: query.limit]

    async def active_operations(self) -> Sequence[Operation]:
        """Every operation that is not terminal, oldest first."""
        found = [one for one in self._records.operations.values() if not one.terminal]
        return sorted(found, key=lambda one: one.id)

    async def operation_events(
        self, operation_id: str, after: int, limit: int
    ) -> Sequence[OperationEvent]:
        """Events numbered above `after` in order, at most `limit`."""
        found = [
            (sequence, event)
            for (owner, sequence), event in self._records.operation_events.items()
            if owner == operation_id and sequence > after
        ]
        return [event for _, event in sorted(found, key=lambda one: one[0])[:limit]]

    async def instances(self) -> Sequence[Instance]:
        """Every instance that ever attached, by id."""
        return [instance for _, instance in sorted(self._records.instances.items())]

    async def forget_operations(self, ended_before: int, limit: int) -> int:
        """Delete the oldest terminal operations that ended before a time."""
        await asyncio.sleep(0)
        ended = sorted(
            (one.end_time, one.id)
            for one in self._records.operations.values()
            if 0 < one.end_time < ended_before
        )[:limit]
        for _, gone in ended:
            del self._records.operations[gone]
            events = self._records.operation_events
            for key in [key for key in events if key[0] == gone]:
                del events[key]
        return len(ended)
