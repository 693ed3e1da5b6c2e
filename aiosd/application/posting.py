"""Posting what is in the outbox: level-triggered over the store, never on the path of a task.

At most ENDPOINT_SLOTS attempts run per endpoint and SLOTS in all; the deliveries of one webhook
are posted one after the other. What is known of an endpoint (failures in a row, slowness) lives in
memory only: after a restart every endpoint gets another chance.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiosd.application.alarm import Alarm
from aiosd.application.errors import OutcomeUnknown
from aiosd.application.ports import CommitConflict, CommitUnknown, ReadFailed, StoreFull
from aiosd.application.trust_ports import SecretUnreadable
from aiosd.application.trust_writes import UpdateDelivery
from aiosd.domain.errors import Refusal
from aiosd.domain.signature import aios_headers, signature_headers
from aiosd.domain.webhook import Answer, Breaker, WebhookFormat, give_up, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiosd.application.ports import Clock, Store
    from aiosd.application.trust_ports import Due, Outbox, Outgoing, Redaction, Trust
    from aiosd.application.webhook_secrets import WebhookSafe, WebhookSecrets
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task
    from aiosd.domain.webhook import Delivery, Webhook

SLOTS = 16
ENDPOINT_SLOTS = 2
#: Endpoints that fail or are slow share this part of the slots, so that the others keep theirs.
SUSPECT_SLOTS = 8
SUSPECT_FAILURES = 3
SLOW_MS = 3_000
#: Due webhooks looked at in one read; more than SLOTS, as those under way are among them.
PAGE = 64
STORE_REST_MS = 1_000
KNOWN_ENDPOINTS = 4096


@dataclass(slots=True)
class Endpoint:
    """What is known of scheme://host:port."""

    busy: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    slow: bool = False

    @property
    def suspect(self) -> bool:
        """It would hold slots for long."""
        return self.slow or self.breaker.failures >= SUSPECT_FAILURES


class Posting:
    """One loop that starts attempts, and the attempts: load, post, save."""

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        trust: Trust,
        safe: WebhookSafe,
        clock: Clock,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._sender = trust.sender
        self._bodies = trust.bodies
        self._redaction: Redaction = trust.redaction
        self._safe = safe
        self._clock = clock
        #: Stops what a receiver does not want any more.
        self.disable: Callable[[Webhook], Awaitable[None]] | None = None
        self._alarm = Alarm(clock)
        self._endpoints: OrderedDict[str, Endpoint] = OrderedDict()
        self._busy: set[tuple[str, str]] = set()
        self._suspects = 0

    def ring(self) -> None:
        """Something may be due."""
        self._alarm.ring()

    def committed(self, before: Task | None, draft: Draft) -> None:
        """A task that has webhooks changed (Ledger observer)."""
        if draft.task.webhook_revision:
            self._alarm.ring()

    async def run(self) -> None:
        """Start what is due, then sleep until the next time."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    wake = await self._start_due(group)
                except ReadFailed:
                    wake = self._clock.now() + STORE_REST_MS
                await self._alarm.sleep(wake)

    async def _start_due(self, group: asyncio.TaskGroup) -> int:
        """Start as many attempts as may run; returns when the next one is due, 0 if none is."""
        resting = {name for name, one in self._endpoints.items() if self._full(one)}
        while len(self._busy) < SLOTS:
            started = False
            for due in await self._outbox.due_deliveries(resting, PAGE):
                if due.due_time > self._clock.now():
                    if not started:
                        return due.due_time
                    break
                endpoint = self._endpoint(due.endpoint)
                if self._full(endpoint):
                    resting.add(due.endpoint)
                    started = True  # there may be more behind it
                elif (due.task_id, due.webhook_id) not in self._busy and len(self._busy) < SLOTS:
                    self._start(group, due, endpoint)
                    started = True
            if not started:
                break
        return 0

    def _full(self, endpoint: Endpoint) -> bool:
        if endpoint.busy >= ENDPOINT_SLOTS:
            return True
        return endpoint.suspect and self._suspects >= SUSPECT_SLOTS

    def _endpoint(self, name: str) -> Endpoint:
        endpoint = self._endpoints.setdefault(name, Endpoint())
        self._endpoints.move_to_end(name)
        if len(self._endpoints) > KNOWN_ENDPOINTS:
            oldest = next(iter(self._endpoints))
            if not self._endpoints[oldest].busy:
                del self._endpoints[oldest]
        return endpoint

    def _start(self, group: asyncio.TaskGroup, due: Due, endpoint: Endpoint) -> None:
        key, suspect = (due.task_id, due.webhook_id), endpoint.suspect
        self._busy.add(key)
        endpoint.busy += 1
        self._suspects += int(suspect)

        def finished(_: object) -> None:
            self._busy.discard(key)
            endpoint.busy -= 1
            self._suspects -= int(suspect)
            self._alarm.ring()

        group.create_task(self._attempt(due, endpoint)).add_done_callback(finished)

    # --- one attempt ------------------------------------------------------------------------------

    async def _attempt(self, due: Due, endpoint: Endpoint) -> None:
        try:
            out = await self._outbox.outgoing(due.delivery_id)
            if out is not None:
                await self._deliver(out, endpoint)
        except (CommitConflict, Refusal):
            pass  # removed or asked for again meanwhile
        except (ReadFailed, CommitUnknown, StoreFull, OutcomeUnknown):
            # The delivery stays as it was: it is posted again, under the same id.
            rested = self._clock.now() + STORE_REST_MS
            await Alarm(self._clock).sleep(rested)

    async def _deliver(self, out: Outgoing, endpoint: Endpoint) -> None:
        delivery, webhook, now = out.delivery, out.webhook, self._clock.now()
        if webhook.disabled:
            await self._save(delivery, give_up(delivery, "the receiver is gone", now))
            return
        rests_until = endpoint.breaker.rests_until
        if rests_until > now and not webhook.paced_by_caller:
            await self._save(delivery, replace(delivery, next_time=rests_until, update_time=now))
            return
        answer = await self._post(out)
        began, now = now, self._clock.now()
        endpoint.slow = now - began > SLOW_MS
        endpoint.breaker = Breaker() if answer.accepted else endpoint.breaker.failed(now)
        await self._save(
            delivery, settle(delivery, webhook, answer, now=now, jitter=_jitter(delivery))
        )
        if answer.gone and self.disable is not None:
            with suppress(Refusal):
                await self.disable(webhook)

    async def _post(self, out: Outgoing) -> Answer:
        try:
            secrets = self._safe.open(out.webhook, out.sealed)
        except SecretUnreadable:
            return Answer(error="the webhook's secrets cannot be opened with the present key")
        with self._safe.hidden(secrets):
            headers = self._headers(out, secrets)
            answer = await self._sender.send(out.webhook.url, headers, out.content)
            return replace(answer, error=self._redaction.text(answer.error))

    def _headers(self, out: Outgoing, secrets: WebhookSecrets) -> list[tuple[str, str]]:
        delivery, webhook, now = out.delivery, out.webhook, self._clock.now()
        headers = [("Content-Type", self._bodies.content_type(webhook.format))]
        if webhook.auth_scheme and secrets.credentials:
            headers.append(("Authorization", f"{webhook.auth_scheme} {secrets.credentials}"))
        if secrets.notification_token:
            headers.append(("X-A2A-Notification-Token", secrets.notification_token))
        aios = webhook.format is WebhookFormat.AIOS
        if aios:
            headers += aios_headers(delivery.id, delivery.event, _time_text(now))
        headers += signature_headers(
            secrets.signing(now), delivery.id, now // 1000, out.content, aios=aios
        )
        if out.trace_parent:
            headers.append(("traceparent", out.trace_parent))
        return headers

    async def _save(self, before: Delivery, after: Delivery) -> None:
        await self._store.commit([UpdateDelivery(after, before.attempts)])


def _jitter(delivery: Delivery) -> float:
    """A number from -1 to 1 that no two attempts share: chance without a source of chance."""
    digest = hashlib.sha256(f"{delivery.id}:{delivery.attempts}".encode()).digest()
    return int.from_bytes(digest[:4]) / 2**31 - 1


def _time_text(ms: int) -> str:
    """RFC 3339 in UTC with milliseconds (X48)."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
