"""Providers that execute scripts, and misbehave as real ones do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiosd.application import messages as wire
from aiosd.domain.artifact import Chunk
from aiosd.domain.content import (
    LogLevel,
    LogLine,
    Message,
    MessageStatus,
    Part,
    PartKind,
    Progress,
    Role,
)
from aiosd.domain.failure import Failure
from aiosd.domain.interruption import AuthRequest, AuthType
from aiosd.domain.task import Task
from tests.simulation.network import END, Accept, Detach, Heartbeat, Reject, Stream
from tests.support.virtual_loop import Process

if TYPE_CHECKING:
    from aiosd.domain.capability import Capability
    from tests.simulation.world import World

FINAL = (wire.Completed, wire.Rejected, wire.Canceled, Failure)


@dataclass(slots=True)
class Attempt:
    """What a provider knows of one attempt."""

    task: Task
    number: int
    session: str
    answers: dict[str, str]
    started: bool = False
    pause: bool = False
    paused: bool = False
    waiting: str = ""
    answer: asyncio.Future[str] | None = None
    sent: int = 0
    unanswered: list[wire.Report] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None

    @property
    def token(self) -> str:
        """Marks everything that this execution says."""
        return f"{self.session}/{self.number}"


class Provider:
    """One machine that runs a provider program and restarts it when it dies."""

    def __init__(self, world: World, name: str, capabilities: tuple[Capability, ...]) -> None:
        self._world = world
        self._rng = world.rng
        self.name = name
        self._capabilities = capabilities
        self._starts = 0
        self._session = ""
        self._stream: Stream | None = None
        self._welcomed = False
        self._attempts: dict[str, Attempt] = {}
        self.process = Process(name)
        self.buried: list[Process] = []
        self.running = False

    def start(self) -> None:
        """A new process with a new session."""
        self._starts += 1
        self._session = f"{self.name}-{self._starts}"
        self._attempts = {}
        self.process = Process(self._session)
        self.process.spawn(self._live(self.process))
        self.running = True

    def die(self, *, silent: bool = False) -> None:
        """SIGKILL; `silent` as when its machine loses power: the stream does not end."""
        self._world.excuse(self.name)
        self.process.kill()
        self.buried.append(self.process)
        self.running = False
        if self._stream is not None and not silent:
            self._stream.cut()
        self._stream = None

    def cut(self) -> None:
        """The connection breaks; the program goes on."""
        self._world.excuse(self.name)
        if self._stream is not None:
            self._stream.cut()

    def stall(self, seconds: float) -> None:
        """The connection carries nothing for a while."""
        self._world.excuse(self.name, seconds)
        if self._stream is not None:
            self._stream.stall(seconds)

    def detach(self) -> None:
        """It ends in order, whatever it was doing."""
        self._world.excuse(self.name)
        if self._stream is not None:
            self._stream.to_daemon.put(Detach())
        self.process.kill()
        self.buried.append(self.process)
        self.running = False

    # --- the stream -------------------------------------------------------------------------------

    async def _live(self, process: Process) -> None:
        while True:
            stream = Stream(self._world)
            if not self._world.daemon.connect(stream):
                await asyncio.sleep(0.2 + self._rng.random())
                continue
            self._stream, self._welcomed = stream, False
            stream.to_daemon.put(self._hello())
            beating = process.spawn(self._beat(stream))
            while (message := await stream.to_provider.get()) is not END:
                self._take(message)
            beating.cancel()
            stream.cut()
            if stream.session_lost:
                for attempt in tuple(self._attempts.values()):
                    self._drop(attempt)
                self._starts += 1
                self._session = f"{self.name}-{self._starts}"
            await asyncio.sleep(self._rng.random() * 0.5)

    def _hello(self) -> wire.Hello:
        held = tuple(
            wire.HeldAttempt(one.task.id, one.number, one.started, one.paused, one.waiting)
            for one in self._attempts.values()
        )
        return wire.Hello(self._session, self.name, self._capabilities, 3, held)

    async def _beat(self, stream: Stream) -> None:
        while True:
            stream.to_daemon.put(Heartbeat())
            await asyncio.sleep(self._world.limits.heartbeat_interval_ms / 1000)

    def _send(self, message: Any) -> None:
        if self._stream is not None:
            self._stream.to_daemon.put(message)

    def _take(self, message: Any) -> None:
        if isinstance(message, wire.Offer):
            self._offered(message)
            return
        if isinstance(message, wire.Welcome):
            self._welcome(message)
            return
        attempt = self._attempts.get(getattr(message, "task_id", ""))
        if attempt is None or attempt.number != message.attempt:
            return
        match message:
            case wire.Go():
                self._go(attempt)
            case wire.OfferWithdrawn():
                self._drop(attempt)
            case wire.Ack():
                attempt.unanswered = [
                    one for one in attempt.unanswered if one.number > message.up_to
                ]
                self._settle(attempt)
            case wire.Refused():
                attempt.unanswered = [
                    one for one in attempt.unanswered if one.number != message.number
                ]
                if message.reason in ("ATTEMPT_FENCED", "TASK_TERMINAL"):
                    self._drop(attempt)
                elif message.reason == "REPORT_INVALID":
                    self._world.blame(attempt.task.id, f"refused: {message}")
                self._settle(attempt)
            case wire.Pause():
                if self._world.calm or self._rng.random() < 0.9:
                    attempt.pause = True
                    attempt.wake.set()
            case wire.Resume():
                attempt.pause = False
                attempt.wake.set()
            case wire.Input():
                self._answered(attempt, message.action, message.input)
            case wire.AuthGranted():
                self._answered(attempt, message.action, message.response.api_key)
            case wire.Cancel():
                self._cancel(attempt)

    def _welcome(self, welcome: wire.Welcome) -> None:
        self._welcomed = True
        stored = {(one.task_id, one.attempt): one.acknowledged for one in welcome.continued}
        for attempt in tuple(self._attempts.values()):
            acknowledged = stored.get((attempt.task.id, attempt.number))
            if acknowledged is None:
                self._drop(attempt)
                continue
            attempt.unanswered = [one for one in attempt.unanswered if one.number > acknowledged]
            for report in attempt.unanswered:
                self._send(report)
            self._settle(attempt)

    # --- attempts ---------------------------------------------------------------------------------

    def _offered(self, offer: wire.Offer) -> None:
        luck = 1.0 if self._world.calm else self._rng.random()
        task_id = offer.task.id
        if luck < 0.05:
            return
        if luck < 0.1:
            self._send(Reject(task_id, offer.attempt, busy=True))
            return
        if luck < 0.12:
            self._send(Reject(task_id, offer.attempt, busy=False))
            return
        known = self._attempts.get(task_id)
        if known is not None:
            self._drop(known)
        answers = {one.action: one.input for one in offer.answers}
        self._attempts[task_id] = Attempt(offer.task, offer.attempt, self._session, answers)
        self._send(Accept(task_id, offer.attempt))
        if luck < 0.15:
            # Said twice; if it then declines what this one wins, it contradicts itself.
            self._world.excuse(self.name)
            self._send(Accept(task_id, offer.attempt))

    def _go(self, attempt: Attempt) -> None:
        if not attempt.started:
            attempt.started = True
            self._world.execute(attempt.task.id, attempt.number, attempt.session)
            attempt.work = self.process.spawn(self._work(attempt))

    def _drop(self, attempt: Attempt) -> None:
        if self._attempts.get(attempt.task.id) is attempt:
            del self._attempts[attempt.task.id]
        if attempt.work is not None:
            attempt.work.cancel()

    def _settle(self, attempt: Attempt) -> None:
        ended = attempt.work is not None and attempt.work.done()
        if ended and not attempt.unanswered:
            self._drop(attempt)

    def _cancel(self, attempt: Attempt) -> None:
        if attempt.work is None or (not self._world.calm and self._rng.random() < 0.3):
            return  # goes on regardless
        attempt.work.cancel()
        self._report(attempt, wire.Canceled())

    def _answered(self, attempt: Attempt, action: str, value: str) -> None:
        self._world.deliver(attempt.task.id, attempt.token, action, value)
        if attempt.waiting == action and attempt.answer is not None and not attempt.answer.done():
            attempt.answer.set_result(value)

    def _report(self, attempt: Attempt, said: Any) -> None:
        attempt.sent += 1
        report = wire.Report(attempt.task.id, attempt.number, attempt.sent, said)
        attempt.unanswered.append(report)
        if not self._welcomed:
            return  # sent again in order, once it is known what is stored
        for _ in range(2 if self._rng.random() < self._world.repeats else 1):
            self._send(report)

    async def _work(self, attempt: Attempt) -> None:
        steps = json.loads(attempt.task.request.arguments)["steps"]
        token = attempt.token
        for position, (kind, value) in enumerate(steps):
            await self._checkpoint(attempt)
            match kind:
                case "sleep":
                    await self._sleep(attempt, value)
                case "progress":
                    self._report(attempt, Progress(value, token))
                case "log":
                    self._report(attempt, LogLine(LogLevel.INFO, token))
                case "message":
                    text = Part(PartKind.TEXT, token)
                    self._report(attempt, Message(f"{token}-{position}", Role.AGENT, (text,)))
                case "reply":
                    await self._reply(attempt, f"{token}-{position}", int(value))
                case "save":
                    self._report(attempt, wire.Checkpoint(json.dumps(token)))
                case "chunks":
                    for number in range(value):
                        last = number == value - 1
                        parts = (Part(PartKind.TEXT, f"{number}"),)
                        name = f"art-{token}-{position}"
                        self._report(
                            attempt,
                            Chunk(name, parts, number > 0, last, number, name, digest=str(number)),
                        )
                case "ask":
                    asked = wire.RequestInput(f"ask-{position}", token)
                    await self._ask(attempt, asked.action, asked)
                case "auth":
                    request = AuthRequest(AuthType.API_KEY, reason=token)
                    need = wire.RequestAuth(f"auth-{position}", request)
                    await self._ask(attempt, need.action, need)
                case "fail":
                    if attempt.number <= value:
                        self._report(attempt, Failure(-32603, token, "error", retryable=True))
                        return
                case "break":
                    self._report(attempt, Failure(-32603, token, "error"))
                    return
                case "decline":
                    self._report(attempt, wire.Rejected(token))
                    return
        self._report(attempt, wire.Completed(json.dumps(token)))
        if self._rng.random() < self._world.repeats:
            self._report(attempt, wire.Completed(json.dumps(token)))  # says it twice

    async def _reply(self, attempt: Attempt, message_id: str, words: int) -> None:
        """A message that streams; with less than three words its end never comes."""
        streams, ended = MessageStatus.STREAMING, MessageStatus.COMPLETED
        for status in (streams, streams, ended)[:words]:
            text = Part(PartKind.TEXT, attempt.token)
            self._report(attempt, Message(message_id, Role.AGENT, (text,), status))
            await self._sleep(attempt, 0.3)

    async def _sleep(self, attempt: Attempt, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            attempt.wake.clear()
            try:
                async with asyncio.timeout_at(end):
                    await attempt.wake.wait()
            except TimeoutError:
                return
            await self._checkpoint(attempt)

    async def _checkpoint(self, attempt: Attempt) -> None:
        if not attempt.pause:
            return
        attempt.paused = True
        self._report(attempt, wire.Paused())
        while attempt.pause:
            attempt.wake.clear()
            await attempt.wake.wait()
        attempt.paused = False
        self._report(attempt, wire.Resumed())

    async def _ask(self, attempt: Attempt, action: str, said: Any) -> None:
        if action in attempt.answers:
            return  # answered to an earlier attempt
        attempt.answer = asyncio.get_running_loop().create_future()
        attempt.waiting = action
        self._report(attempt, said)
        value = await attempt.answer
        attempt.waiting = ""
        self._world.use(attempt.task.id, attempt.token, action, value)
