"""The application as one piece: every use case built from the ports, observers in order.

The daemon puts real adapters behind it, the simulation virtual ones; nothing else differs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from aiosd.application.access_ports import AccessRecords, Holdings
from aiosd.application.anchoring import Anchoring
from aiosd.application.audit import Audit
from aiosd.application.capabilities import Capabilities
from aiosd.application.client_sessions import ClientSessions
from aiosd.application.control import Control
from aiosd.application.creation import Creation
from aiosd.application.credentials import Credentials
from aiosd.application.deadlines import Deadlines
from aiosd.application.execution import Execution
from aiosd.application.grants import Grants
from aiosd.application.instances import Instances
from aiosd.application.ledger import Ledger
from aiosd.application.messages import Drain
from aiosd.application.operating import Operating
from aiosd.application.operation_ledger import OperationLedger
from aiosd.application.operations import Operations
from aiosd.application.outbox import Outgoings
from aiosd.application.permission_requests import PermissionRequests
from aiosd.application.permissions import Permissions
from aiosd.application.ports import Queue, ReadFailed, Registry, Runtimes, Store
from aiosd.application.posting import Posting
from aiosd.application.projection import Projection
from aiosd.application.quotas import Quota, Quotas
from aiosd.application.reading import Reading
from aiosd.application.recovery import recover
from aiosd.application.reporting import Reporting
from aiosd.application.resolution import Resolution
from aiosd.application.retention import Retention
from aiosd.application.scheduler import Scheduler
from aiosd.application.sessions import Sessions
from aiosd.application.slots import Slots
from aiosd.application.subscriptions import Subscriptions
from aiosd.application.tokens import Tokens
from aiosd.application.trust_ports import AuditTrail, Outbox
from aiosd.application.wakeups import Wakeups
from aiosd.application.watch import Watch
from aiosd.application.webhook_secrets import WebhookSafe
from aiosd.application.webhooks import Webhooks
from aiosd.domain.permission import Policy

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiosd.application.limits import Limits
    from aiosd.application.ports import Clock, Ids, Schemas
    from aiosd.application.trust_ports import Trust


class Stores(
    Store, Queue, Registry, Runtimes, Outbox, AuditTrail, AccessRecords, Holdings, Protocol
):
    """One adapter that is all these ports."""


class Core:
    """Built once per process; `start` recovers, `run` keeps the loops alive."""

    def __init__(
        self,
        *,
        store: Stores,
        clock: Clock,
        ids: Ids,
        schemas: Schemas,
        key: bytes,
        limits: Limits,
        trust: Trust,
        policy: Policy | None = None,
        quota: Quota | None = None,
        exempt: Collection[str] = (),
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.store = store
        self.wakeups = Wakeups()
        self.ledger = Ledger(store, clock, self.wakeups, limits.event_retention)
        self.quotas = Quotas(store, clock, quota or Quota(), exempt)
        self.sessions = Sessions(clock, limits.lease_ms)
        self.slots = Slots(limits)
        self.credentials = Credentials(key, trust.redaction)
        self.capabilities = Capabilities(store, store, self.sessions, schemas, clock)
        self.creation = Creation(
            self.ledger, store, store, self.capabilities, ids, clock, limits, self.quotas
        )
        self.scheduler = Scheduler(store, self.ledger, self.sessions, self.slots, limits)
        self.reporting = Reporting(self.ledger, self.credentials, schemas, ids, limits, self.quotas)
        self._build_operations(store, ids, schemas)
        self._build_trust(store, ids, trust)
        self._build_access(store, ids, key, policy or Policy())
        self.execution = Execution(
            self.ledger,
            self.sessions,
            self.scheduler,
            self.reporting,
            self.credentials,
            self.operating,
            clock,
            limits,
        )
        self.reporting.stopped = self.execution.stopped
        self.control = Control(
            self.ledger,
            self.execution,
            self.slots,
            self.credentials,
            self.permissions,
            schemas,
            self.wakeups,
            limits,
        )
        self.permission_requests = PermissionRequests(
            store=store,
            registry=store,
            ledger=self.ledger,
            grants=self.grants,
            permissions=self.permissions,
            capabilities=self.capabilities,
            control=self.control,
            audit=self.audit,
            ids=ids,
            clock=clock,
            limits=limits,
        )
        self.ledger.record(self.permission_requests.record)
        self.resolution = Resolution(self.ledger, self.creation)
        self.watch = Watch(store, self.ledger, self.wakeups)
        self.reading = Reading(store, self.ledger)
        self.client_sessions = ClientSessions(
            store, store, self.ledger, self.control, self.audit, ids, clock
        )
        self.subscriptions = Subscriptions(
            store, store, self.ledger, self.watch, self.wakeups, self.audit, ids, clock
        )
        self._deadlines = Deadlines(store, self.ledger, clock)
        self._retention = Retention(store, store, self.ledger, self.quotas, clock, limits)
        # Slots before the scheduler, so that it sees what became free; the holder is told of a
        # credential before it is forgotten.
        for observer in (
            self.quotas.committed,
            self.creation.committed,
            self.slots.committed,
            self.execution.committed,
            self.credentials.committed,
            self.scheduler.committed,
            self._deadlines.committed,
            self.watch.committed,
            self._posting.committed,
            self.grants.committed,
            self.permissions.committed,
        ):
            self.ledger.observe(observer)

    def _build_trust(self, store: Stores, ids: Ids, trust: Trust) -> None:
        clock, ledger = self.clock, self.ledger
        self.audit = Audit(store, store, trust.anchor, trust.redaction, clock, trust.audit_key)
        self.anchoring = Anchoring(store, trust.anchor, clock)
        outgoings = Outgoings(store, trust.bodies, ids)
        safe = WebhookSafe(trust.vault, trust.redaction)
        self._posting = Posting(store, store, trust, safe, clock)
        self.webhooks = Webhooks(
            store=store,
            outbox=store,
            ledger=ledger,
            outgoings=outgoings,
            trust=trust,
            safe=safe,
            audit=self.audit,
            quotas=self.quotas,
            ids=ids,
            clock=clock,
            ring=self._posting.ring,
        )
        self._posting.disable = self.webhooks.disable
        self.creation.attach = self.webhooks.attach
        self.reporting.refused = self.audit.report_refused
        ledger.record(self.audit.record)
        self.operation_ledger.recorder = self.audit.record_operation
        ledger.record(outgoings.record)

    def _build_access(self, store: Stores, ids: Ids, key: bytes, policy: Policy) -> None:
        clock, ledger = self.clock, self.ledger
        self.tokens = Tokens(store, store, self.audit, ids, clock)
        self.grants = Grants(store, store, ids, clock)
        self.permissions = Permissions(
            ledger=ledger,
            grants=self.grants,
            capabilities=self.capabilities,
            slots=self.slots,
            audit=self.audit,
            policy=policy,
            key=key,
            ids=ids,
            clock=clock,
            limits=self.limits,
        )
        self.scheduler.admit = self.permissions.admit
        ledger.record(self.grants.record)

    def _build_operations(self, store: Stores, ids: Ids, schemas: Schemas) -> None:
        clock, limits = self.clock, self.limits
        self.instances = Instances(store, self.sessions, schemas, clock)
        self.operation_ledger = OperationLedger(store, clock, self.wakeups)
        projection = Projection(self.operation_ledger, self.instances, clock)
        self.operating = Operating(
            self.operation_ledger, self.instances, projection, self.sessions, clock, limits
        )
        self.operations = Operations(
            store,
            self.operation_ledger,
            self.instances,
            self.operating,
            self.wakeups,
            ids,
            clock,
            limits,
        )

    async def start(self) -> int:
        """Recover; returns how many attempts wait for their provider to attach again."""
        until = self.clock.now() + self.limits.reattach_window_ms
        await self.anchoring.start()
        await self.tokens.load()
        await self.grants.load()
        await self.quotas.load()
        operations = await self.operating.recover(until)
        return operations + await recover(
            queue=self.store,
            ledger=self.ledger,
            capabilities=self.capabilities,
            creation=self.creation,
            sessions=self.sessions,
            scheduler=self.scheduler,
            slots=self.slots,
            clock=self.clock,
            limits=self.limits,
        )

    async def run(self) -> None:
        """Every loop, until canceled; if one of them fails, all end (and the daemon with them)."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.scheduler.run())
            group.create_task(self.sessions.run(self.execution.lose))
            group.create_task(self._deadlines.run())
            group.create_task(self._retention.run())
            group.create_task(self.ledger.run())
            group.create_task(self.operating.run())
            group.create_task(self.anchoring.run())
            group.create_task(self._posting.run())

    async def stop(self) -> None:
        """No new work; subscribers are told to resume later, providers to finish (I45)."""
        self.creation.stop()
        self.scheduler.stop()
        for session in self.sessions.all():
            session.draining = True
            session.send(Drain())
        self.watch.stop()
        self.operations.stop()
        await self.ledger.settle()
        await self.operation_ledger.settle()
        with suppress(ReadFailed):  # compared at the next start all the same
            await self.anchoring.anchor()
