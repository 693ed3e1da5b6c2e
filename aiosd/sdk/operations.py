"""Runtime operations: control commands to the instance that a provider is."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.sdk import json_text
from aiosd.sdk.errors import OperationFailed, ProjectionBlocked
from aiosd.sdk.outbox import NotHeld

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.sdk.outbox import Outbox

    Operate: TypeAlias = Callable[["OperationContext", dict[str, Any]], Awaitable[Any]]

log = logging.getLogger("aiosd.sdk")


@dataclass(slots=True)
class Instance:
    """The runtime that a provider is: an id that survives restarts, and its state as it is."""

    instance_id: str
    name: str
    state: dict[str, Any]
    state_schema: dict[str, Any] | None = None


class OperationContext:
    """One operation, for the code that carries it out."""

    def __init__(self, run: wire.RunOperation, instance: Instance, outbox: Outbox) -> None:
        self.operation_id = run.operation_id
        self.method = run.method
        self.target_scope = run.target_scope
        self.target_id = run.target_id
        self.remaining_ms = run.remaining.ToMilliseconds() if run.HasField("remaining") else None
        """Time left when it arrived; None: no bound."""
        self.committed = False
        """True once the effect was reported; it is never un-said."""
        self._instance = instance
        self._outbox = outbox
        self._unanswered: dict[int, asyncio.Future[str]] = {}

    @property
    def state(self) -> dict[str, Any]:
        """The instance's state as it was last reported."""
        return self._instance.state

    async def progress(self, phase: str, current: int = 0, total: int = 0) -> None:
        """Say how far it is. `total` 0: unknown."""
        progress = wire.OperationProgressed(phase=phase, current=current, total=total)
        await self.deliver(wire.OperationReport(progressed=progress))

    async def commit(self, state: dict[str, Any] | None = None, result: Any = None) -> None:
        """Report that the effect happened, with the whole new state of the instance.

        `state` None: unchanged. Returns when it is stored and visible. Raises ProjectionBlocked
        if the state does not fit the instance's schema: commit again with a corrected one.
        """
        previous = self._instance.state
        if state is not None:
            self._instance.state = state
        self.committed = True
        committed = wire.EffectCommitted(
            state="" if state is None else json_text.dump_object(state, "state"),
            result="" if result is None else json_text.dump(result, "result"),
        )
        problem = await self.deliver(wire.OperationReport(committed=committed))
        if problem:
            self._instance.state = previous
            raise ProjectionBlocked(problem)

    async def deliver(self, report: wire.OperationReport) -> str:
        """Send a report; returns, when it is stored, why it could not be projected, or nothing."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._unanswered[self._outbox.report_operation(self.operation_id, report)] = future
        return await future

    def acknowledge(self, ack: wire.OperationAck) -> None:
        """Reports up to a number are stored; the problem is that of the last one."""
        for number in [one for one in self._unanswered if one <= ack.up_to]:
            future = self._unanswered.pop(number)
            if not future.done():
                future.set_result(ack.projection_problem if number == ack.up_to else "")


class RunningOperation:
    """An operation on its way; `live` sees it through."""

    def __init__(self, context: OperationContext, operate: Operate, outbox: Outbox) -> None:
        self.context = context
        self._operate = operate
        self._outbox = outbox
        self._work: asyncio.Task[Any] | None = None
        self._canceled = False
        self._lost = False

    async def live(self, params: dict[str, Any]) -> None:
        """Run the code and report how it ended."""
        operation_id = self.context.operation_id
        self._work = asyncio.ensure_future(self._operate(self.context, params))
        if self._canceled or self._lost:  # said before this began: nothing happens
            self._work.cancel()
        await asyncio.wait({self._work})
        try:
            ending = self._ending(self._work)
            if ending is not None and not self._lost:
                await self.context.deliver(ending)
        except NotHeld:
            log.info("operation.not_held operation_id=%s", operation_id)
        finally:
            self._outbox.drop_operation(operation_id)

    def cancel(self) -> None:
        """Stop if the effect has not happened."""
        if self.context.committed:
            return
        self._canceled = True
        if self._work is not None:
            self._work.cancel()

    def lose(self) -> None:
        """Drop it: it does not go on."""
        self._lost = True
        if self._work is not None:
            self._work.cancel()

    def _ending(self, work: asyncio.Task[Any]) -> wire.OperationReport | None:
        """The report that is still due; None after the effect was reported."""
        error = None if work.cancelled() else work.exception()
        if self.context.committed:
            if error is not None:
                log.error(
                    "operation.failed_after_commit operation_id=%s",
                    self.context.operation_id,
                    exc_info=error,
                )
            return None
        if work.cancelled():
            if self._canceled:
                return wire.OperationReport(canceled=wire.OperationCanceled())
            return wire.OperationReport(failed=wire.OperationFailed(message="canceled itself"))
        if error is None:
            result = work.result()
            text = "" if result is None else json_text.dump(result, "result")
            return wire.OperationReport(committed=wire.EffectCommitted(result=text))
        if isinstance(error, OperationFailed):
            failed = wire.OperationFailed(code=error.code, message=error.message)
            return wire.OperationReport(failed=failed)
        log.error("operation.failed operation_id=%s", self.context.operation_id, exc_info=error)
        text = f"the operation raised {type(error).__name__}"
        return wire.OperationReport(failed=wire.OperationFailed(message=text))
