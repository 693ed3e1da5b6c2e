"""What principals hold, in SQL; asked seldom (S-20)."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from aiosd.application.access_ports import Holding
from aiosd.domain.state import TERMINAL

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Mapping, Sequence

    import apsw

    from aiosd.adapters.sqlite.readers import Readers
    from aiosd.adapters.sqlite.transaction import CountKey

# Bodies leave defaults out, so an empty artifact has no size.
_SIZE = "sum(coalesce(json_extract(CAST(artifacts.body AS TEXT), '$.size_bytes'), 0))"
_OF_TASKS = f"""
    SELECT tasks.principal, {_SIZE} FROM tasks JOIN artifacts ON artifacts.task = tasks.row
    WHERE tasks.id IN (SELECT value FROM json_each(?)) GROUP BY tasks.principal
"""  # noqa: S608 - no input
_OF_PRINCIPAL = f"""
    SELECT {_SIZE} FROM tasks JOIN artifacts ON artifacts.task = tasks.row
    WHERE tasks.principal = ?
"""  # noqa: S608 - no input
_WEBHOOKS = """
    SELECT tasks.id, count(*) FROM tasks JOIN webhooks ON webhooks.task = tasks.row
    WHERE tasks.principal = ? AND tasks.ended = 0 GROUP BY tasks.id
"""


def _holdings(connection: apsw.Connection, open_tasks: Mapping[str, int]) -> dict[str, Holding]:
    found = {}
    for principal, count in open_tasks.items():
        size: Any = connection.execute(_OF_PRINCIPAL, (principal,)).fetchall()[0][0]
        webhooks: list[Any] = connection.execute(_WEBHOOKS, (principal,)).fetchall()
        found[principal] = Holding(count, size or 0, dict(webhooks))
    return found


def _artifact_bytes(connection: apsw.Connection, task_ids: Sequence[str]) -> dict[str, int]:
    found: list[Any] = connection.execute(_OF_TASKS, (json.dumps(list(task_ids)),)).fetchall()
    return dict(found)


class HoldingReads:
    """The port Holdings, for a store with readers and counts of tasks."""

    _readers: Readers
    _counts: Counter[CountKey]

    async def holdings(self, exempt: Collection[str]) -> Mapping[str, Holding]:
        """Of every principal that holds something and is not exempt."""
        open_tasks: dict[str, int] = {}
        for (principal, _, state), count in self._counts.items():
            if principal not in exempt and count:
                before = open_tasks.setdefault(principal, 0)
                open_tasks[principal] = before + (0 if state in TERMINAL else count)
        if not open_tasks:
            return {}
        return await self._readers.read(partial(_holdings, open_tasks=open_tasks))

    async def artifact_bytes(self, task_ids: Sequence[str]) -> Mapping[str, int]:
        """Bytes of the artifacts of these tasks, by principal."""
        return await self._readers.read(partial(_artifact_bytes, task_ids=task_ids))
