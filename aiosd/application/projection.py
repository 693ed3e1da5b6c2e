"""Projection: the state that an effect left behind becomes the instance's state in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.application.errors import Full, OperationNotFound, OutcomeUnknown
from aiosd.application.ports import CommitConflict, CommitUnknown, ReadFailed, StoreFull
from aiosd.application.writes import PutInstance
from aiosd.domain import operation_lifecycle as life
from aiosd.domain.operation import OperationStatus

if TYPE_CHECKING:
    from aiosd.application.instances import Instances
    from aiosd.application.operation_ledger import OperationLedger
    from aiosd.application.ports import Clock
    from aiosd.application.writes import Write
    from aiosd.domain.instance import Instance
    from aiosd.domain.operation import Operation


class Projection:
    """Moves states from operations to instances; the effect is never un-said (R163-R165)."""

    def __init__(self, ledger: OperationLedger, instances: Instances, clock: Clock) -> None:
        self._ledger = ledger
        self._instances = instances
        self._clock = clock

    async def project(self, operation_id: str) -> str:
        """Project what is pending, until it is known to be stored.

        Returns why it could not be projected: the operation is blocked, and stays so until a
        corrected state is reported, a newer state is projected or an operator closes it.
        """
        while True:
            operation = await self._ledger.load(operation_id)
            if operation is None:
                return ""
            if operation.status is OperationStatus.PROJECTION_BLOCKED:
                return operation.error.message if operation.error is not None else ""
            if operation.status is not OperationStatus.PROJECTION_PENDING:
                return ""
            try:
                async with self._instances.lock(operation.request.instance_id):
                    await self._project(operation)
            except OperationNotFound:
                return ""
            except (OutcomeUnknown, Full, CommitUnknown, ReadFailed):
                await self._ledger.rest()
                await self._refresh()

    async def follow_up(self, operation: Operation, state: str) -> str:
        """Another state, reported by an operation that has succeeded already: a new revision."""
        instance_id = operation.request.instance_id
        while True:
            problem = self._instances.problem(self._instances.get(instance_id), state)
            if problem:
                return problem
            try:
                await self._instances.advance(instance_id, state)
            except (CommitConflict, CommitUnknown, StoreFull):
                await self._ledger.rest()
                await self._refresh()
                continue
            await self.settle(instance_id)
            return ""

    async def settle(self, instance_id: str, except_for: frozenset[str] = frozenset()) -> None:
        """A whole state of the instance is projected: it holds every earlier effect.

        Blocked operations of the instance recover, those left out whose provider is still at it.
        """
        revision = self._instances.get(instance_id).revision
        for operation in self._ledger.active():
            if operation.request.instance_id != instance_id or operation.id in except_for:
                continue
            if operation.status is OperationStatus.PROJECTION_BLOCKED:
                await self._ledger.apply(operation.id, lambda draft: life.synced(draft, revision))

    async def _project(self, operation: Operation) -> None:
        state = operation.reported_state
        before = self._instances.get(operation.request.instance_id)
        problem = self._instances.problem(before, state) if state else ""
        if problem:
            await self._ledger.change(operation.id, lambda draft: life.block(draft, problem))
            return
        after = before.projected(state, self._clock.now()) if state else before
        await self._sync(operation, before, after)
        self._instances.put(after)
        await self.settle(after.id)

    async def _sync(self, operation: Operation, before: Instance, after: Instance) -> None:
        extra: list[Write] = []
        if after is not before:
            extra.append(PutInstance(after, before.revision))
        await self._ledger.change(
            operation.id, lambda draft: life.synced(draft, after.revision), extra
        )

    async def _refresh(self) -> None:
        """Read the registry again: it is not known which commits happened."""
        while True:
            try:
                await self._instances.load()
            except (ReadFailed, CommitUnknown):
                await self._ledger.rest()
                continue
            return
