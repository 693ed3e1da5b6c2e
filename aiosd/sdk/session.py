"""What the daemon said, taken to whom it concerns. Runs on the loop of the capabilities."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import execution, json_text
from aiosd.sdk.attempt import Attempt
from aiosd.sdk.errors import OperationFailed
from aiosd.sdk.link import Heard, LinkEnded, SessionLost
from aiosd.sdk.operations import OperationContext, RunningOperation

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from aiosd.sdk.execution import CapabilityCode
    from aiosd.sdk.link import Incoming
    from aiosd.sdk.operations import Instance, Operate
    from aiosd.sdk.outbox import AttemptKey, Outbox

log = logging.getLogger("aiosd.sdk")

LOST_GRACE_S = 5.0
"""How long the code of an attempt that is not ours any more may take to stop."""


class Session:
    """The attempts and operations of one run of a provider."""

    def __init__(
        self,
        outbox: Outbox,
        capabilities: Mapping[str, CapabilityCode],
        operations: Mapping[str, Operate],
        instance: Instance | None,
    ) -> None:
        self.attached = asyncio.Event()
        """The daemon has answered Hello at least once."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the link will not come back; raises why."""
        self._draining = False
        self._outbox = outbox
        self._capabilities = capabilities
        self._methods = operations
        self._instance = instance
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._operations: dict[str, RunningOperation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._daemon_stops = False

    # --- from the link ------------------------------------------------------------------------

    def hear(self, incoming: Incoming) -> None:
        """Take what the link delivers, in order."""
        match incoming:
            case Heard(stream, messages):
                for message in messages:
                    self._take(stream, message)
            case SessionLost():
                log.warning("provider.session_lost attempts=%s", len(self._attempts))
                self.lose_all()
            case LinkEnded(error):
                if self.ended.done():
                    return
                if error is None:
                    self.ended.set_result(None)
                else:
                    self.ended.set_exception(error)

    def _take(self, stream: int, message: wire.DaemonMessage) -> None:
        match message.WhichOneof("message"):
            case "welcome":
                self._settle(message.welcome)
            case "offer":
                self._consider(stream, message.offer)
            case "drain":
                self._daemon_stops = True
            case "run_operation":
                self._operate(message.run_operation)
            case "cancel_operation":
                operation = self._operations.get(message.cancel_operation.operation_id)
                if operation is not None:
                    operation.cancel()
            case "operation_ack":
                operation = self._operations.get(message.operation_ack.operation_id)
                if operation is not None:
                    operation.context.acknowledge(message.operation_ack)
            case None:
                pass  # a message of a later version
            case kind:
                self._command(getattr(message, kind))

    def _command(self, command: Any) -> None:
        """A message to one attempt; one that is not ours is stale and concerns nobody."""
        attempt = self._attempts.get((command.task_id, command.attempt))
        if attempt is None:
            return
        match command.DESCRIPTOR.name:
            case "Go":
                if not attempt.begin.done():
                    attempt.begin.set_result(True)
            case "Ack":
                attempt.acknowledge(command.up_to)
            case "Refused":
                attempt.refuse(command)
            case "Pause":
                attempt.pause()
            case "Resume":
                attempt.resume()
            case "Cancel":
                attempt.cancel(command.reason, command.grace.ToMilliseconds() / 1000)
            case "Input":
                attempt.answer(command.action, command.input)
            case "AuthGranted":
                attempt.answer(command.action, command.auth_response)
            case "OfferWithdrawn":
                attempt.withdraw()
            case _:
                pass

    def _settle(self, welcome: wire.Welcome) -> None:
        """Stop what the daemon does not count as ours; hear again what it has stored."""
        self._daemon_stops = False
        continued = {(one.task_id, one.attempt): one.acknowledged for one in welcome.continued}
        for key, attempt in list(self._attempts.items()):
            if key in continued:
                attempt.acknowledge(continued[key])
            else:
                attempt.lose(LOST_GRACE_S)
        for operation_id, operation in list(self._operations.items()):
            if operation_id not in welcome.continued_operations:
                operation.lose()
        self.attached.set()
        if self._draining:
            self._offer_nothing()

    def _consider(self, stream: int, offer: wire.Offer) -> None:
        key = (offer.task.task_id, offer.attempt)
        code = self._capabilities.get(offer.task.capability_id)
        if code is None or self._draining or self._daemon_stops:
            reason = "unknown capability" if code is None else "draining"
            self._outbox.say(execution.reject(key, busy=True, reason=reason))
            return
        known = self._attempts.get(key)
        if known is not None and known.void:
            # Withdrawn and offered again before its code has noticed.
            known.lose(LOST_GRACE_S)
            known = None
        if known is None:
            self._attempts[key] = attempt = Attempt(offer, self._outbox, self._spawn)
            self._idle.clear()
            self._spawn(self._live(attempt, code, stream))

    async def _live(self, attempt: Attempt, code: CapabilityCode, stream: int) -> None:
        try:
            await execution.live(attempt, code, self._outbox, stream)
        finally:
            if self._attempts.get(attempt.key) is attempt:
                del self._attempts[attempt.key]
            self._note_idle()

    def _operate(self, run: wire.RunOperation) -> None:
        if run.operation_id in self._operations or self._instance is None:
            return
        operate = self._methods.get(run.method, _refuse_method)
        self._outbox.hold_operation(run.operation_id)
        context = OperationContext(run, self._instance, self._outbox)
        operation = RunningOperation(context, operate, self._outbox)
        self._operations[run.operation_id] = operation
        self._idle.clear()
        self._spawn(self._live_operation(operation, json_text.load(run.params) or {}))

    async def _live_operation(self, operation: RunningOperation, params: dict[str, Any]) -> None:
        try:
            await operation.live(params)
        finally:
            del self._operations[operation.context.operation_id]
            self._note_idle()

    # --- the end ------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take no more offers."""
        self._draining = True
        self._offer_nothing()

    def _offer_nothing(self) -> None:
        self._outbox.say(wire.ProviderMessage(credits=wire.Credits(credits=0)))

    async def idle(self) -> None:
        """Return when nothing runs."""
        await self._idle.wait()

    def lose_all(self) -> None:
        """Stop everything and say nothing about it."""
        for attempt in list(self._attempts.values()):
            attempt.lose(LOST_GRACE_S)
        for operation in list(self._operations.values()):
            operation.lose()

    async def close(self, grace_s: float) -> None:
        """Stop everything, wait for it at most so long, and let go of the rest."""
        self.lose_all()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()

    def _note_idle(self) -> None:
        if not self._attempts and not self._operations:
            self._idle.set()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._reap)
        return task

    def _reap(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("provider.fault", exc_info=task.exception())


async def _refuse_method(op: OperationContext, params: dict[str, Any]) -> None:
    """What carries out a method that was never declared."""
    raise OperationFailed(f"method {op.method} is unknown to this provider")
