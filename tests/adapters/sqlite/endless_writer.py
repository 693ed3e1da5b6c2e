"""A process that commits tasks until it is killed, and prints the number of each acknowledged one.

python -m tests.adapters.sqlite.endless_writer PATH FIRST
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from aiosd.adapters.sqlite import SqliteStore
from aiosd.application.writes import PutMessage
from aiosd.domain.content import Message, Role
from tests.contract.builders import a_key, a_task, put, status_events


async def main(path: Path, first: int) -> None:
    """Keep several commits in flight."""
    store = SqliteStore.open(path)
    numbers = itertools.count(first)

    async def work() -> None:
        for number in numbers:
            task = a_task(number)
            await store.commit(
                [
                    put(task),
                    status_events(task.id, 1, 2),
                    PutMessage(task.id, Message("m", Role.USER)),
                    a_key(f"k{number}", target=task.id),
                ]
            )
            os.write(1, b"%d\n" % number)

    await asyncio.gather(*(work() for _ in range(16)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
