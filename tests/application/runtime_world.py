"""A daemon's operations over a store that stays, and an instance that executes scripts.

Both are processes of a virtual loop: they can be killed at any instant and started again. Every
effect that an instance has leaves a mark that survives it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.adapters.memory import MemoryStore
from aiosd.application.access import SCOPES, Caller
from aiosd.application.errors import SessionLost
from aiosd.application.instances import Instances
from aiosd.application.limits import Limits
from aiosd.application.messages import Hello, Welcome
from aiosd.application.operating import Operating
from aiosd.application.operation_ledger import OperationLedger
from aiosd.application.operation_messages import OperationReport
from aiosd.application.operations import NewOperation, Operations
from aiosd.application.projection import Projection
from aiosd.application.sessions import Sessions
from aiosd.application.wakeups import Wakeups
from tests.application.scripted_instance import END, Heartbeat, ScriptedInstance, Stream
from tests.support.manual_clock import CountingIds, LoopClock
from tests.support.operation_consistency import check_log, check_snapshot, log_of, seen
from tests.support.virtual_loop import Process, run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiosd.adapters.memory.store import Fault
    from aiosd.domain.operation import Operation, OperationEvent

LIMITS = Limits(
    heartbeat_interval_ms=200,
    lease_ms=1_000,
    reattach_window_ms=3_000,
    cancel_grace_ms=500,
    max_queue_size=20,
)
OWNER = Caller("owner", SCOPES)


class NumberSchemas:
    """A state fits any schema if its member `n` is an integer; `broken` is no schema."""

    def check(self, schema: str) -> str:
        return "is not a schema" if schema == "broken" else ""

    def problem(self, schema: str, instance: Any) -> str:
        return "" if isinstance(instance.get("n"), int) else "n: must be an integer"


class DaemonSide:
    """One process of a daemon, as far as operations go."""

    def __init__(self, store: MemoryStore, ids: CountingIds) -> None:
        self.process = Process("daemon")
        clock, wakeups = LoopClock(), Wakeups()
        self.sessions = Sessions(clock, LIMITS.lease_ms)
        self.ledger = OperationLedger(store, clock, wakeups)
        self.instances = Instances(store, self.sessions, NumberSchemas(), clock)
        projection = Projection(self.ledger, self.instances, clock)
        self.operating = Operating(
            self.ledger, self.instances, projection, self.sessions, clock, LIMITS
        )
        self.operations = Operations(
            store,
            self.ledger,
            self.instances,
            self.operating,
            wakeups,
            ids,
            clock,
            LIMITS,
        )
        self.clock = clock
        self.streams: set[Stream] = set()
        self.ready = asyncio.Event()

    async def main(self) -> None:
        await self.operating.recover(self.clock.now() + LIMITS.reattach_window_ms)
        self.ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.operating.run())
            group.create_task(self.sessions.run(self.operating.lose))

    def accept(self, stream: Stream) -> None:
        self.streams.add(stream)
        self.process.spawn(self._serve(stream))

    async def _serve(self, stream: Stream) -> None:
        session = None
        try:
            hello = await stream.up.get()
            if isinstance(hello, Hello):
                await self.ready.wait()
                session = self.sessions.attach(hello, "owner", stream)
                reattached = await self.operating.attach(session, hello)
                if session.welcome(stream, Welcome(200, 1_000, (), reattached.continued)):
                    await self.operating.catch_up(session, reattached)
                while (message := await stream.up.get()) is not END:
                    if self.sessions.get(session.id) is not session:
                        raise SessionLost
                    if isinstance(message, OperationReport):
                        await self.operating.report(session, message)
                    elif isinstance(message, Heartbeat):
                        self.sessions.heartbeat(session)
        except SessionLost:
            stream.close(session_lost=True)
        finally:
            if session is not None and session.link is stream:
                self.sessions.disconnect(session, stream)
            stream.close(session_lost=False)
            self.streams.discard(stream)


class RuntimeWorld:
    """The store, the daemon of the moment, and one instance."""

    def __init__(self, *, before: Fault | None = None, after: Fault | None = None) -> None:
        faults: dict[str, Any] = {"before": before, "after": after}
        self.store = MemoryStore(**{name: one for name, one in faults.items() if one})
        self.ids = CountingIds()
        self.effects: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.instance = ScriptedInstance(self)
        self.graveyard: list[Process] = []
        self.daemon = DaemonSide(self.store, self.ids)
        self.start_daemon(self.daemon)

    # --- processes --------------------------------------------------------------------------------

    def start_daemon(self, daemon: DaemonSide | None = None) -> None:
        self.daemon = daemon or DaemonSide(self.store, self.ids)
        self.daemon.process.spawn(self.daemon.main())

    def kill_daemon(self) -> None:
        self.daemon.process.kill()
        self.graveyard.append(self.daemon.process)
        for stream in tuple(self.daemon.streams):
            stream.cut()

    def connect(self, stream: Stream) -> bool:
        """False while nobody listens."""
        if not self.daemon.process.alive:
            return False
        self.daemon.accept(stream)
        return True

    async def bury(self) -> None:
        """The end: everything stops and is cleared away."""
        loop: Any = asyncio.get_running_loop()
        self.kill_daemon()
        self.instance.kill()
        for process in self.graveyard:
            await loop.bury(process)

    # --- what tests do ----------------------------------------------------------------------------

    async def attached(self) -> None:
        """The instance is there."""
        for _ in range(1_000):
            if self.daemon.instances.session("runtime") is not None:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the instance never attached")

    async def create(self, *steps: list[Any], **options: Any) -> str:
        new = NewOperation(
            options.pop("scope", "instance"),
            options.pop("target_id", "runtime"),
            options.pop("method", "script"),
            json.dumps({"steps": steps}),
            **options,
        )
        made, _ = await self.daemon.operations.create(OWNER, new)
        return made.id

    async def get(self, operation_id: str) -> Operation:
        found = await self.store.operation(operation_id)
        assert found is not None
        check_snapshot(seen(found))
        return found

    async def log(self, operation_id: str) -> list[OperationEvent]:
        """The whole log, checked."""
        events = list(await self.store.operation_events(operation_id, 0, 1_000))
        check_log(log_of(events), complete=(await self.get(operation_id)).terminal)
        return events

    async def until(self, operation_id: str, reached: Callable[[Operation], bool]) -> Operation:
        """The operation once it is so; virtual time passes."""
        for _ in range(20_000):
            found = await self.get(operation_id)
            if reached(found):
                return found
            await asyncio.sleep(0.01)
        raise AssertionError(f"never; last seen: {found}")

    async def end(self, operation_id: str) -> Operation:
        return await self.until(operation_id, lambda one: one.terminal)

    async def status(self, operation_id: str, word: str) -> Operation:
        return await self.until(operation_id, lambda one: one.status.word == word)


def in_world(test: Callable[[RuntimeWorld], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in a world whose instance is attached."""

    def run() -> None:
        async def whole() -> None:
            world = RuntimeWorld()
            world.instance.start()
            await world.attached()
            await test(world)
            await world.bury()

        run_virtual(whole)

    run.__name__ = test.__name__
    for mark in getattr(test, "pytestmark", []):
        run = getattr(pytest.mark, mark.name)(*mark.args)(run)
    return run
