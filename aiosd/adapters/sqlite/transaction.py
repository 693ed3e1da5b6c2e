"""What the changes of one commit share inside the transaction of a batch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from aiosd.application.ports import CommitConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

#: Principal, capability and state; how many tasks there are of each.
CountKey: TypeAlias = tuple[str, str, int]
#: One encoded write, ready to run in a transaction.
Change: TypeAlias = "Callable[[Transaction], None]"


class Transaction:
    """What the changes of one commit share: the connection, rows looked up, counts changed."""

    def __init__(self, connection: apsw.Connection, audit_key: bytes) -> None:
        self.audit_key = audit_key
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.last_row = connection.last_insert_rowid
        self.counts: Counter[CountKey] = Counter()
        self._rows: dict[str, int] = {}

    def row(self, task_id: str) -> int:
        """The row of a task that must exist."""
        row = self._rows.get(task_id)
        if row is None:
            row = self.execute("SELECT row FROM tasks WHERE id = ?", (task_id,)).get
            if row is None:
                raise CommitConflict(f"there is no task {task_id}")
            self._rows[task_id] = row
        return row

    def remember(self, task_id: str, row: int) -> None:
        """Spare the next change of this commit the look-up."""
        self._rows[task_id] = row


def store_counts(execute: Callable[..., object], counts: Counter[CountKey]) -> None:
    """Add what a batch changed to the stored counts."""
    for (principal, capability_id, state), n in counts.items():
        if n:
            execute(
                "INSERT INTO task_counts VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET n = n + excluded.n",
                (principal, capability_id, state, n),
            )


def load_counts(connection: apsw.Connection) -> Counter[CountKey]:
    """The stored counts."""
    return Counter(
        {
            (principal, capability_id, state): n
            for principal, capability_id, state, n in connection.execute(
                "SELECT principal, capability_id, state, n FROM task_counts WHERE n > 0"
            )
        }
    )
