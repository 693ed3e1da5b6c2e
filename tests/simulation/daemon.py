"""The daemon of a simulation: the real core behind simulated streams and calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from aiosd.application.core import Core
from aiosd.application.errors import SessionLost
from aiosd.application.messages import HeartbeatAck, Hello, Report
from aiosd.application.ports import ReadFailed
from aiosd.domain.errors import Refusal
from tests.simulation.network import END, Accept, Detach, Heartbeat, Reject
from tests.support.manual_clock import CountingIds, LoopClock, NoSchemas
from tests.support.trust import open_trust
from tests.support.virtual_loop import Process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from aiosd.application.sessions import Session
    from tests.simulation.network import Stream
    from tests.simulation.world import World

T = TypeVar("T")
PROVIDERS = "providers"


class Down(Exception):
    """The daemon is not there, or died during the call: nobody knows what it did."""


class Daemon:
    """Starts, serves and dies, over a store that stays."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ids = CountingIds()
        self._trust = open_trust()
        self._streams: dict[Stream, None] = {}
        self.core: Core | None = None
        self.process = Process("none")
        self.process.alive = False
        self.buried: list[Process] = []
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """A new process recovers; until it has, calls meet nobody."""
        if self._world.over or self.process.alive:
            return
        self.process = Process(f"daemon-{len(self.buried)}")
        self._death = asyncio.get_running_loop().create_future()
        main = self.process.spawn(self._main())
        main.add_done_callback(self._ended)

    async def _main(self) -> None:
        core = Core(
            store=self._world.store,
            clock=LoopClock(),
            ids=self._ids,
            schemas=NoSchemas(),
            key=b"k" * 32,
            limits=self._world.limits,
            trust=self._trust,
        )
        await core.start()
        self.core = core
        await core.run()

    def _ended(self, main: asyncio.Task[None]) -> None:
        if main.cancelled():
            return
        error = main.exception()
        if self.core is not None or not isinstance(error, Refusal | ReadFailed):
            self._world.blame("daemon", f"its loops ended: {error!r}")
        self.kill()  # recovery met a store that was away: try again, as systemd would
        asyncio.get_running_loop().call_later(0.1, self.start)

    def kill(self) -> None:
        """SIGKILL."""
        self._world.excuse("daemon", 4)
        self.process.kill()
        self.buried.append(self.process)
        self.core = None
        for stream in tuple(self._streams):
            stream.cut()
        self._streams.clear()
        if not self._death.done():
            self._death.set_result(None)

    async def stop(self) -> None:
        """SIGTERM: an end in order, then the process is gone."""
        core, process = self.core, self.process
        if core is not None:
            stopping = process.spawn(core.stop())
            await asyncio.wait((stopping,), timeout=self._world.limits.drain_grace_ms / 1000)
        if self.process is process and process.alive:
            self.kill()

    # --- as the rpc adapter does it ---------------------------------------------------------------

    def connect(self, stream: Stream) -> bool:
        """Take a stream; False if nobody listens."""
        if self.core is None:
            return False
        self._streams[stream] = None
        self.process.spawn(self._read(self.core, stream))
        return True

    async def _read(self, core: Core, stream: Stream) -> None:
        session: Session | None = None
        lost = False
        try:
            while (message := await stream.to_daemon.get()) is not END:
                if session is None:
                    assert isinstance(message, Hello)
                    await core.capabilities.remember(message.capabilities)
                    session = await core.execution.attach(message, PROVIDERS, stream)
                elif await self._take(core, session, message, stream):
                    break
        except SessionLost:
            lost = True
        except Exception as error:  # a commit that failed ends the stream, as in the adapter
            self._world.note("stream", repr(error))
        finally:
            if session is not None:
                core.execution.disconnect(session, stream)
            self._streams.pop(stream, None)
            stream.close(session_lost=lost)

    async def _take(self, core: Core, session: Session, message: Any, stream: Stream) -> bool:
        if core.sessions.get(session.id) is not session or session.link is not stream:
            raise SessionLost
        match message:
            case Heartbeat():
                core.sessions.heartbeat(session)
                stream.send(HeartbeatAck(0))
            case Report():
                await core.execution.report(session, message)
            case Accept():
                core.execution.accept(session, message.task_id, message.attempt)
            case Reject():
                core.execution.reject(
                    session, message.task_id, message.attempt, busy=message.busy, reason="no"
                )
            case Detach():
                await core.execution.detach(session)
                return True
            case _:
                raise AssertionError(message)
        return False

    # --- calls ------------------------------------------------------------------------------------

    async def call(self, make: Callable[[Core], Coroutine[Any, Any, T]]) -> T:
        """A call whose handler runs in the daemon; raises Down or what the handler raises."""
        if self.core is None:
            raise Down
        handler = self.process.spawn(make(self.core))
        death = self._death
        try:
            await asyncio.wait((handler, death), return_when=asyncio.FIRST_COMPLETED)
            if not handler.done():
                raise Down
            try:
                return handler.result()
            except ReadFailed:
                raise Down from None  # as UNAVAILABLE
        finally:
            handler.add_done_callback(lambda done: done.cancelled() or done.exception())
            if not death.done():
                handler.cancel()

    async def stream(self, make: Callable[[Core], AsyncIterator[T]]) -> AsyncIterator[T]:
        """A server stream; raises Down when the daemon dies."""
        items: asyncio.Queue[T] = asyncio.Queue()

        async def pump(core: Core) -> None:
            async for item in make(core):
                items.put_nowait(item)

        if self.core is None:
            raise Down
        handler = self.process.spawn(pump(self.core))
        handler.add_done_callback(lambda done: done.cancelled() or done.exception())
        death = self._death
        item = asyncio.ensure_future(items.get())
        try:
            while True:
                await asyncio.wait((handler, death, item), return_when=asyncio.FIRST_COMPLETED)
                if item.done():
                    yield item.result()
                    item = asyncio.ensure_future(items.get())
                    continue
                item.cancel()
                while not items.empty():
                    yield items.get_nowait()
                if not handler.done():
                    raise Down
                handler.result()
                return
        finally:
            item.cancel()
            if not death.done():
                handler.cancel()
