"""An instance whose operations are scripts, and the stream between it and a daemon."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiosd.application.messages import Hello, Welcome
from aiosd.application.operation_messages import (
    CancelOperation,
    EffectCommitted,
    OperationAck,
    OperationCanceled,
    OperationFailed,
    OperationProgressed,
    OperationReport,
    RunOperation,
)
from aiosd.domain.instance import Declaration
from tests.support.virtual_loop import Process

if TYPE_CHECKING:
    from tests.application.runtime_world import RuntimeWorld

END = "end"
LOST = "lost"
METHODS = ("script", "other")


class Heartbeat:
    """A sign of life."""


class Stream:
    """Two queues that die together; the daemon sees it as a ProviderLink."""

    def __init__(self) -> None:
        self.up: asyncio.Queue[Any] = asyncio.Queue()
        self.down: asyncio.Queue[Any] = asyncio.Queue()
        self.ended = False

    def send(self, message: object) -> None:
        if not self.ended:
            self.down.put_nowait(message)

    def close(self, session_lost: bool) -> None:
        if not self.ended:
            self.ended = True
            self.down.put_nowait(LOST if session_lost else END)

    def cut(self) -> None:
        """Whatever is on its way is gone."""
        self.ended = True
        for queue in (self.up, self.down):
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(END)


@dataclass
class Run:
    """One operation that the instance holds."""

    order: RunOperation
    sent: int = 0
    committed: bool = False
    canceled: bool = False
    unanswered: dict[int, OperationReport] = field(default_factory=dict)
    answers: dict[int, asyncio.Future[str]] = field(default_factory=dict)
    work: asyncio.Task[None] | None = None


class ScriptedInstance:
    """One machine that runs the instance's program and can lose its process."""

    def __init__(self, world: RuntimeWorld) -> None:
        self._world = world
        self._starts = 0
        self._session = ""
        self._stream: Stream | None = None
        self.state: dict[str, Any] = {"n": 0}
        self.methods = METHODS
        self.schema = "{}"
        self.runs: dict[str, Run] = {}
        self.process = Process("instance")

    def start(self, **state: Any) -> None:
        """A new process with a new session; a killed one forgets its state."""
        self._starts += 1
        self._session = f"session-{self._starts:012d}"
        self.runs = {}
        self.state = {"n": 0, **state}
        self.process = Process(self._session)
        self.process.spawn(self._live(self.process))

    def kill(self) -> None:
        """SIGKILL: the stream ends with it."""
        self.process.kill()
        self._world.graveyard.append(self.process)
        self.disconnect()

    def disconnect(self) -> None:
        """The connection breaks."""
        if self._stream is not None:
            self._stream.cut()

    async def _live(self, process: Process) -> None:
        while True:
            stream = Stream()
            if not self._world.connect(stream):
                await asyncio.sleep(0.05)
                continue
            self._stream = stream
            stream.up.put_nowait(self._hello())
            beating = process.spawn(self._beat(stream))
            lost = await self._hear(stream)
            beating.cancel()
            if lost:
                self._starts += 1
                self._session = f"session-{self._starts:012d}"
                self._drop(())
            await asyncio.sleep(0.02)

    def _hello(self) -> Hello:
        said = Declaration("runtime", "R", json.dumps(self.state), self.schema, self.methods)
        return Hello(self._session, "runtime", (), 1, (), tuple(self.runs), said)

    async def _beat(self, stream: Stream) -> None:
        while True:
            await asyncio.sleep(0.15)
            stream.up.put_nowait(Heartbeat())

    async def _hear(self, stream: Stream) -> bool:
        while (message := await stream.down.get()) is not END:
            if message is LOST:
                return True
            match message:
                case Welcome():
                    self._drop(message.continued_operations)
                    for run in self.runs.values():
                        for report in run.unanswered.values():
                            stream.up.put_nowait(report)
                case RunOperation():
                    self._begin(message)
                case CancelOperation(operation_id):
                    self._cancel(operation_id)
                case OperationAck():
                    self._answered(message)
        return False

    def _drop(self, continued: tuple[str, ...]) -> None:
        for operation_id in [one for one in self.runs if one not in continued]:
            run = self.runs.pop(operation_id)
            if run.work is not None:
                run.work.cancel()

    def _begin(self, order: RunOperation) -> None:
        self._world.told[order.operation_id] += 1
        assert order.operation_id not in self.runs, "told twice"
        run = self.runs[order.operation_id] = Run(order)
        run.work = asyncio.get_running_loop().create_task(self._execute(run))

    def _cancel(self, operation_id: str) -> None:
        run = self.runs.get(operation_id)
        if run is not None and run.work is not None and not run.committed:
            run.canceled = True
            run.work.cancel()

    def _answered(self, ack: OperationAck) -> None:
        run = self.runs.get(ack.operation_id)
        if run is None:
            return
        for number in [one for one in run.unanswered if one <= ack.up_to]:
            del run.unanswered[number]
            answer = run.answers.pop(number)
            if not answer.done():
                answer.set_result(ack.problem if number == ack.up_to else "")

    async def _execute(self, run: Run) -> None:
        operation_id = run.order.operation_id
        try:
            for step in json.loads(run.order.params)["steps"]:
                await self._step(run, *step)
        except asyncio.CancelledError:
            if not run.canceled:
                raise
            run.canceled = False
            await self._say(run, OperationCanceled())
        except RuntimeError as failure:
            run.committed = True  # it has ended: there is nothing left to stop
            await self._say(run, OperationFailed("", str(failure)))
        else:
            if not run.committed:
                run.committed = True
                await self._say(run, EffectCommitted("", None))
        self.runs.pop(operation_id, None)

    async def _step(self, run: Run, kind: str, value: Any = None) -> None:
        match kind:
            case "sleep":
                await asyncio.sleep(value / 1000)
            case "effect":
                run.committed = True  # from here on it does not stop
                self._world.effects[run.order.operation_id] += 1
            case "progress":
                await self._say(run, OperationProgressed(value, 1, 2))
            case "commit":
                run.committed = True
                self.state = {**self.state, **value}
                await self._say(run, EffectCommitted(json.dumps(self.state), '"done"'))
            case "report":  # a state as it is, a wrong one too
                run.committed = True
                await self._say(run, EffectCommitted(value, None))
            case "fail":
                raise RuntimeError(value)
            case "deaf":
                run.committed = True

    async def _say(self, run: Run, said: Any) -> str:
        run.sent += 1
        report = OperationReport(run.order.operation_id, run.sent, said)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        run.unanswered[run.sent] = report
        run.answers[run.sent] = answer
        if self._stream is not None and not self._stream.ended:
            self._stream.up.put_nowait(report)
        return await answer
