"""What principals hold, in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aiosd.application.access_ports import Holding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from aiosd.adapters.memory.records import Record, Records
    from aiosd.adapters.memory.trust import TrustRecords


class HoldingReads:
    """The port Holdings."""

    _records: Records
    _trust: TrustRecords

    async def holdings(self, exempt: Collection[str]) -> Mapping[str, Holding]:
        """Of every principal that holds something and is not exempt."""
        found: dict[str, list[Record]] = {}
        for record in self._records.tasks.values():
            if record.task.principal not in exempt:
                found.setdefault(record.task.principal, []).append(record)
        return {principal: self._holding(records) for principal, records in found.items()}

    async def artifact_bytes(self, task_ids: Sequence[str]) -> Mapping[str, int]:
        """Bytes of the artifacts of these tasks, by principal."""
        found: Counter[str] = Counter()
        for task_id in task_ids:
            record = self._records.tasks.get(task_id)
            if record is not None and record.artifacts:
                found[record.task.principal] += _size(record)
        return found

    def _holding(self, records: Sequence[Record]) -> Holding:
        is_open = {one.task.id for one in records if not one.task.terminal}
        webhooks = Counter(task_id for task_id, _ in self._trust.webhooks if task_id in is_open)
        return Holding(len(is_open), sum(map(_size, records)), webhooks)


def _size(record: Record) -> int:
    return sum(one.size_bytes for one in record.artifacts.values())
