"""What a starting daemon does with what it finds (X07). Needs no human, repeats no work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.application.sessions import Held
from aiosd.domain import waits
from aiosd.domain.state import TaskState

if TYPE_CHECKING:
    from aiosd.application.capabilities import Capabilities
    from aiosd.application.creation import Creation
    from aiosd.application.ledger import Ledger
    from aiosd.application.limits import Limits
    from aiosd.application.ports import Clock, Queue
    from aiosd.application.scheduler import Scheduler
    from aiosd.application.sessions import Sessions
    from aiosd.application.slots import Slots


async def recover(
    *,
    queue: Queue,
    ledger: Ledger,
    capabilities: Capabilities,
    creation: Creation,
    sessions: Sessions,
    scheduler: Scheduler,
    slots: Slots,
    clock: Clock,
    limits: Limits,
) -> int:
    """Take up every open task as it was; returns how many attempts wait for their provider.

    An attempt that was running is neither lost nor repeated yet: its provider has the re-attach
    window to come back with the same session (I19). After it the session ends like any other
    whose lease ran out, and the attempt is lost with what that means (I16).
    """
    await capabilities.load()
    creation.begin(await queue.count(TaskState.SUBMITTED))
    expected = 0
    until = clock.now() + limits.reattach_window_ms
    for found in await queue.open_tasks():
        task = found
        if task.resume_pending and task.granted is not None:
            # Its credential was in the memory of the process that ended.
            task = (await ledger.change(task.id, waits.withdraw_resume)).task
        slots.place(task)
        scheduler.place(task)
        if task.held:
            expected += 1
            session = sessions.expect(task.attempt.holder, until)
            # The go-ahead may have been written before the crash: never say it was not.
            session.held[task.id] = Held(
                task.id, task.attempt.number, go=True, running=task.state is TaskState.WORKING
            )
    return expected
