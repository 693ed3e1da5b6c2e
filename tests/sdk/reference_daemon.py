"""The provider protocol, followed to the letter, over a real socket, for tests of the SDK.

It is written on the contract alone. What it stores survives `stop` and `start`, as a daemon's
store would. Faults are scripted: streams are cut, acknowledgements swallowed, reports refused.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.api.provider.v1.provider_service_pb2_grpc import (
    ProviderServiceServicer,
    add_ProviderServiceServicer_to_server,
)
from aiosd.api.v1 import task_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

PATIENCE_S = 10.0
TERMINAL = {"completed", "failed", "canceled", "rejected"}

Key = tuple[str, int]


@dataclass
class Attempt:
    """What the daemon knows of one attempt."""

    task: task_pb2.Task
    number: int
    checkpoint: str = ""
    answers: list[wire.PastAnswer] = field(default_factory=list)
    accepted: bool = False
    rejected: wire.Reject | None = None
    gone: bool = False
    over: bool = False
    stored: list[wire.Report] = field(default_factory=list)
    refused: list[wire.Report] = field(default_factory=list)
    received: list[wire.Report] = field(default_factory=list)
    answered: int = 0

    @property
    def key(self) -> Key:
        return (self.task.task_id, self.number)

    def kinds(self) -> list[str]:
        """What was stored, by name, in order."""
        return [str(report.WhichOneof("report")) for report in self.stored]

    def last(self, kind: str) -> Any:
        """The newest stored report of a kind."""
        return next(
            getattr(report, kind) for report in reversed(self.stored) if report.HasField(kind)
        )


@dataclass
class Operation:
    """What the daemon knows of one operation."""

    operation_id: str
    reports: list[wire.OperationReport] = field(default_factory=list)


class ReferenceDaemon(ProviderServiceServicer):
    """A daemon for one provider at a time."""

    def __init__(self, socket: Path, *, heartbeat_ms: int = 200, lease_ms: int = 5_000) -> None:
        self.address = f"unix:{socket}"
        self.heartbeat_ms = heartbeat_ms
        self.lease_ms = lease_ms
        self.hellos: list[wire.Hello] = []
        self.attempts: dict[Key, Attempt] = {}
        self.operations: dict[str, Operation] = {}
        self.heartbeats = 0
        self.credits = 0
        self.detached: list[str] = []
        self.violations: list[str] = []
        self.batches: list[int] = []
        self.acknowledges = True
        self.answers_heartbeats = True
        self.continues = True
        self.refuse: Callable[[wire.Report], str] = lambda report: ""
        self.projection_problem: Callable[[wire.EffectCommitted], str] = lambda effect: ""
        self.refuse_attach: tuple[grpc.StatusCode, str] | None = None
        self._session_id = ""
        self._out: asyncio.Queue[wire.DaemonMessage | Exception] | None = None
        self._changed = asyncio.Condition()
        self._server: aio.Server | None = None
        self._made = 0

    # --- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        self._server = aio.server()
        add_ProviderServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        """As a crash: streams break, nothing is said."""
        assert self._server is not None
        await self._server.stop(0)
        self._server = None

    async def cut(self, reason: str = "", code: Any = grpc.StatusCode.UNAVAILABLE) -> None:
        """Break the stream."""
        assert self._out is not None
        await self._out.put(_Cut(code, reason))

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Wait until it holds; looked at after everything that arrives."""
        async with self._changed:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._changed.wait_for(condition)
            except TimeoutError:
                raise AssertionError(f"never happened: {what or condition}") from None

    # --- commands -----------------------------------------------------------------------------

    def send(self, **message: Any) -> None:
        """Say something on the stream; lost when there is none, as on a wire."""
        if self._out is not None:
            self._out.put_nowait(wire.DaemonMessage(**message))

    async def offer(
        self,
        capability_id: str,
        arguments: str = "{}",
        *,
        number: int = 1,
        task_id: str = "",
        checkpoint: str = "",
        answers: tuple[wire.PastAnswer, ...] = (),
        trace_parent: str = "",
    ) -> Attempt:
        """Offer an attempt; returns when it was accepted or rejected."""
        self._made += 1
        task = task_pb2.Task(
            task_id=task_id or f"task-{self._made}",
            capability_id=capability_id,
            arguments=arguments,
            metadata="{}",
            trace_parent=trace_parent,
        )
        attempt = Attempt(task, number, checkpoint, list(answers))
        self.attempts[attempt.key] = attempt
        self.send(
            offer=wire.Offer(task=task, attempt=number, checkpoint=checkpoint, answers=answers)
        )
        await self.until(lambda: attempt.accepted or attempt.rejected, "an answer to the offer")
        return attempt

    async def begin(self, capability_id: str, arguments: str = "{}", **kwargs: Any) -> Attempt:
        """Offer an attempt and let it go."""
        attempt = await self.offer(capability_id, arguments, **kwargs)
        assert attempt.accepted, attempt.rejected
        self.go(attempt)
        return attempt

    def go(self, attempt: Attempt) -> None:
        attempt.gone = True
        self.send(go=wire.Go(**name(attempt)))

    def cancel(self, attempt: Attempt, reason: str = "canceled", grace_ms: int = 5_000) -> None:
        cancel = wire.Cancel(**name(attempt), reason=reason)
        cancel.grace.FromMilliseconds(grace_ms)
        self.send(cancel=cancel)

    async def ended(self, attempt: Attempt) -> wire.Report:
        """The terminal report, once it is stored."""
        await self.until(lambda: attempt.over, f"the end of {attempt.key}")
        return attempt.stored[-1]

    async def stored(self, attempt: Attempt, kind: str) -> None:
        await self.until(lambda: kind in attempt.kinds(), f"{kind} of {attempt.key}")

    # --- the stream ---------------------------------------------------------------------------

    async def Attach(  # type: ignore[override]
        self,
        request_iterator: AsyncIterator[wire.AttachRequest],
        context: aio.ServicerContext[wire.AttachRequest, wire.AttachResponse],
    ) -> None:
        if self.refuse_attach is not None:
            await _abort(context, *self.refuse_attach)
        requests = aiter(request_iterator)
        hello = (await anext(requests)).messages[0].hello
        out: asyncio.Queue[wire.DaemonMessage | Exception] = asyncio.Queue()
        out.put_nowait(self._welcome(hello))
        async with self._changed:
            self._out = out
            self.hellos.append(hello)
            self.credits = hello.credits
            self._changed.notify_all()
        writer = asyncio.create_task(self._write(out, context))
        reader = asyncio.create_task(self._read(requests, out))
        try:
            await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._out is out:
                self._out = None
            reader.cancel()
            cut = writer.exception() if writer.done() and not writer.cancelled() else None
            writer.cancel()
        if isinstance(cut, _Cut):
            await _abort(context, cut.code, cut.reason)

    def _welcome(self, hello: wire.Hello) -> wire.DaemonMessage:
        known = hello.session_id == self._session_id and self.continues
        self._session_id = hello.session_id
        welcome = wire.Welcome(version="reference")
        welcome.heartbeat_interval.FromMilliseconds(self.heartbeat_ms)
        welcome.lease.FromMilliseconds(self.lease_ms)
        for held in hello.attempts:
            attempt = self.attempts.get((held.task_id, held.attempt))
            if known and attempt is not None and not attempt.over:
                welcome.continued.add(
                    task_id=held.task_id, attempt=held.attempt, acknowledged=len(attempt.stored)
                )
        if known:
            welcome.continued_operations.extend(held.operation_id for held in hello.operations)
        return wire.DaemonMessage(welcome=welcome)

    async def _write(
        self,
        out: asyncio.Queue[wire.DaemonMessage | Exception],
        context: aio.ServicerContext[wire.AttachRequest, wire.AttachResponse],
    ) -> None:
        while True:
            message = await out.get()
            if isinstance(message, Exception):
                raise message
            await context.write(wire.AttachResponse(messages=[message]))

    async def _read(
        self,
        requests: AsyncIterator[wire.AttachRequest],
        out: asyncio.Queue[wire.DaemonMessage | Exception],
    ) -> None:
        async for request in requests:
            self.batches.append(len(request.messages))
            async with self._changed:
                for message in request.messages:
                    answer = self._take(message)
                    if answer is not None:
                        out.put_nowait(answer)
                self._changed.notify_all()

    def _take(self, message: wire.ProviderMessage) -> wire.DaemonMessage | None:
        match message.WhichOneof("message"):
            case "heartbeat":
                self.heartbeats += 1
                if self.answers_heartbeats:
                    ack = wire.HeartbeatAck(number=message.heartbeat.number)
                    return wire.DaemonMessage(heartbeat_ack=ack)
            case "accept":
                self.attempts[message.accept.task_id, message.accept.attempt].accepted = True
            case "reject":
                key = (message.reject.task_id, message.reject.attempt)
                self.attempts[key].rejected = message.reject
            case "report":
                return self._report(message.report)
            case "operation_report":
                return self._operation_report(message.operation_report)
            case "credits":
                self.credits = message.credits.credits
            case "detach":
                self.detached.append(message.detach.reason)
            case kind:
                self.violations.append(f"unexpected {kind}")
        return None

    def _report(self, report: wire.Report) -> wire.DaemonMessage | None:
        attempt = self.attempts[report.task_id, report.attempt]
        attempt.received.append(report)
        if not attempt.gone and not report.HasField("canceled"):
            self.violations.append(f"{report.WhichOneof('report')} before Go")
        reason = "TASK_TERMINAL" if attempt.over else self.refuse(report)
        # A report that is stored already is a no-op, and acknowledged again.
        if report.number > len(attempt.stored):
            if reason:
                attempt.refused.append(report)
                attempt.answered = max(attempt.answered, report.number)
                refused = wire.Refused(
                    task_id=report.task_id,
                    attempt=report.attempt,
                    number=report.number,
                    reason=reason,
                    message="as scripted",
                )
                return wire.DaemonMessage(refused=refused)
            if report.number != max(attempt.answered, len(attempt.stored)) + 1:
                self.violations.append(f"report {report.number} after {len(attempt.stored)}")
            # Refused numbers count, so that positions in the list stay report numbers.
            while len(attempt.stored) < report.number - 1:
                attempt.stored.append(wire.Report(number=len(attempt.stored) + 1))
            attempt.stored.append(report)
            attempt.answered = report.number
            attempt.over = report.WhichOneof("report") in TERMINAL
        if not self.acknowledges:
            return None
        ack = wire.Ack(task_id=report.task_id, attempt=report.attempt, up_to=len(attempt.stored))
        return wire.DaemonMessage(ack=ack)

    def _operation_report(self, report: wire.OperationReport) -> wire.DaemonMessage | None:
        operation = self.operations.setdefault(report.operation_id, Operation(report.operation_id))
        if report.number > len(operation.reports):
            operation.reports.append(report)
        if not self.acknowledges:
            return None
        problem = self.projection_problem(report.committed) if report.HasField("committed") else ""
        ack = wire.OperationAck(
            operation_id=report.operation_id, up_to=report.number, projection_problem=problem
        )
        return wire.DaemonMessage(operation_ack=ack)


class _Cut(Exception):
    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


def name(attempt: Attempt) -> dict[str, Any]:
    """The members that every message about an attempt has."""
    return {"task_id": attempt.task.task_id, "attempt": attempt.number}


async def _abort(context: Any, code: grpc.StatusCode, reason: str) -> None:
    await context.abort_with_status(rich_status(code, reason))


def rich_status(
    code: grpc.StatusCode, reason: str, message: str = "as scripted", **metadata: str
) -> Any:
    """The status of a refusal as the daemon writes it."""
    details = []
    if reason:
        info = error_details_pb2.ErrorInfo(reason=reason, domain="aiosd", metadata=metadata)
        packed = AnyMessage()
        packed.Pack(info)
        details.append(packed)
    status = status_pb2.Status(code=code.value[0], message=message, details=details)
    return rpc_status.to_status(status)


@asynccontextmanager
async def running(daemon: ReferenceDaemon) -> AsyncIterator[ReferenceDaemon]:
    """The daemon, started; at the end the protocol must have been kept."""
    await daemon.start()
    try:
        yield daemon
    finally:
        if daemon._server is not None:
            await daemon.stop()
    assert daemon.violations == []
