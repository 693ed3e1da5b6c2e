"""Registering webhooks and looking after deliveries: the use cases of WebhookService."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aiosd.application.access import own
from aiosd.application.errors import (
    DeliveryNotFound,
    OutcomeUnknown,
    SecretLost,
    TooManyWebhooks,
    WebhookNotFound,
)
from aiosd.application.ports import CommitConflict
from aiosd.application.trust_ports import SecretUnreadable
from aiosd.application.trust_writes import (
    DropSecret,
    DropWebhook,
    PutSecret,
    PutWebhook,
    UpdateDelivery,
)
from aiosd.application.webhook_request import NewWebhook, check
from aiosd.application.webhook_secrets import WebhookSecrets, secret_id
from aiosd.application.writes import Write
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.event import Event, StatusChanged
from aiosd.domain.signature import make_secret
from aiosd.domain.webhook import (
    ROTATION_MS,
    Delivery,
    Webhook,
    WebhookFormat,
    redeliver,
    wants,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiosd.application.access import Caller
    from aiosd.application.audit import Audit
    from aiosd.application.ledger import Ledger
    from aiosd.application.outbox import Outgoings
    from aiosd.application.ports import Clock, Ids, Store
    from aiosd.application.quotas import Quotas
    from aiosd.application.trust_ports import DeliveryQuery, Outbox, Trust
    from aiosd.application.webhook_request import NewWebhook
    from aiosd.application.webhook_secrets import WebhookSafe
    from aiosd.domain.draft import Draft
    from aiosd.domain.task import Task

MOST_PER_TASK = 10
TRIES = 5


@dataclass(frozen=True, slots=True)
class Registered:
    """`signing_secret` is empty unless the daemon made it; it is shown only here."""

    webhook: Webhook
    signing_secret: str
    created: bool
    writes: tuple[Write, ...] = field(default=(), repr=False)


class _Moved(Exception):
    """The task's webhooks changed since they were read."""


class Webhooks:
    """Each method is one use case; all raise TaskNotFound for a task that is not the caller's."""

    def __init__(
        self,
        *,
        store: Store,
        outbox: Outbox,
        ledger: Ledger,
        outgoings: Outgoings,
        trust: Trust,
        safe: WebhookSafe,
        audit: Audit,
        quotas: Quotas,
        ids: Ids,
        clock: Clock,
        ring: Callable[[], None],
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._ledger = ledger
        self._outgoings = outgoings
        self._sender = trust.sender
        self._bodies = trust.bodies
        self._safe = safe
        self._audit = audit
        self._quotas = quotas
        self._ids = ids
        self._clock = clock
        self._ring = ring

    def supports(self, form: WebhookFormat) -> bool:
        """Whether webhooks of that format can be written."""
        return self._bodies.supports(form)

    async def create(self, caller: Caller, task_id: str, new: NewWebhook) -> Registered:
        """Register a webhook of a task, or replace it (X23).

        The key is the id if one is given, else the URL. A terminal task's end is posted once.
        Raises ArgumentInvalid, WebhookUrlRefused, TooManyWebhooks.
        """
        caller.require("webhook:manage")
        own(caller, await self._ledger.load(task_id))
        self._check(new, "webhook")
        made: list[Registered] = []

        def change(task: Task, there: Sequence[Webhook]) -> tuple[Sequence[Webhook], list[Write]]:
            same = next((one for one in there if self._same(one, new)), None)
            if same is None and len(there) >= MOST_PER_TASK:
                raise TooManyWebhooks(
                    f"a task has at most {MOST_PER_TASK} webhooks", {"limit": str(MOST_PER_TASK)}
                )
            if same is None:
                self._quotas.check_webhook(task)
            registered = self._register(task, new, same)
            made[:] = [registered]
            webhook = registered.webhook
            after = [one for one in there if one.id != webhook.id] + [webhook]
            details = {"webhook_id": webhook.id, "url": webhook.shown_url}
            return after, [
                *registered.writes,
                self._audit.of("webhook.registered", task=task, details=details),
            ]

        await self._changed(task_id, change, ended=lambda: made[0])
        self._ring()
        return made[0]

    def attach(self, draft: Draft, wanted: Sequence[NewWebhook]) -> list[Write]:
        """The webhooks of a task that is being made, as writes of its first commit."""
        if len(wanted) > MOST_PER_TASK:
            raise ArgumentInvalid("webhooks", f"must be at most {MOST_PER_TASK}")
        self._quotas.check_webhook(draft.task, len(wanted))
        webhooks: list[Webhook] = []
        writes: list[Write] = []
        for index, new in enumerate(wanted):
            self._check(new, f"webhooks[{index}]")
            same = next((one for one in webhooks if self._same(one, new)), None)
            if same is not None:
                raise ArgumentInvalid(f"webhooks[{index}]", "is there twice")
            registered = self._register(draft.task, new, None)
            webhooks.append(registered.webhook)
            writes += registered.writes
        if webhooks:
            draft.task = replace(draft.task, webhook_revision=1)
            draft.webhook_count = len(webhooks)
            self._outgoings.remember(draft.task.id, 1, webhooks)
        return writes

    async def of_task(self, caller: Caller, task_id: str) -> Sequence[Webhook]:
        """Every webhook of a task."""
        caller.require("task:read")
        own(caller, await self._ledger.load(task_id))
        return await self._outbox.webhooks(task_id)

    async def get(self, caller: Caller, task_id: str, webhook_id: str) -> Webhook:
        """One of them; raises WebhookNotFound."""
        return _find(await self.of_task(caller, task_id), webhook_id)

    async def delete(
        self, caller: Caller, task_id: str, *, webhook_id: str = "", url: str = ""
    ) -> int:
        """Stop posting; returns how many were there (R131)."""
        caller.require("webhook:manage")
        if bool(webhook_id) == bool(url):
            raise ArgumentInvalid("webhook_id", "or url must be given, and not both")
        task = own(caller, await self._ledger.load(task_id))
        removed = 0

        def change(task: Task, there: Sequence[Webhook]) -> tuple[Sequence[Webhook], list[Write]]:
            nonlocal removed
            gone = [one for one in there if one.id == webhook_id or one.url == url]
            removed = len(gone)
            writes: list[Write] = []
            for one in gone:
                details = {"webhook_id": one.id, "url": one.shown_url}
                writes += [
                    DropWebhook(task.id, one.id),
                    DropSecret(secret_id(one)),
                    self._audit.of("webhook.removed", task=task, details=details),
                ]
            return [one for one in there if one not in gone], writes

        if task.webhook_revision:
            await self._changed(task_id, change)
        return removed

    async def rotate(self, caller: Caller, task_id: str, webhook_id: str) -> str:
        """A new secret; the one before signs beside it for ROTATION_MS (S-25)."""
        caller.require("webhook:manage")
        webhook = await self.get(caller, task_id, webhook_id)
        sealed = await self._outbox.secret(secret_id(webhook))
        try:
            before = self._safe.open(webhook, sealed or b"")
        except SecretUnreadable:
            raise SecretLost from None
        now = self._clock.now()
        signing = before.signing(now)
        after = replace(
            before,
            secret=make_secret(self._ids.secret().encode()),
            previous=signing[0] if signing else "",
            previous_until=now + ROTATION_MS,
        )

        def change(task: Task, there: Sequence[Webhook]) -> tuple[Sequence[Webhook], list[Write]]:
            found = replace(_find(there, webhook_id), has_secret=True)
            others = [found if one.id == webhook_id else one for one in there]
            sealed = self._safe.seal(found, after)
            return others, [
                PutWebhook(found),
                PutSecret(secret_id(found), task.id, sealed),
                self._audit.of(
                    "webhook.secret_rotated", task=task, details={"webhook_id": webhook_id}
                ),
            ]

        await self._changed(task_id, change)
        return after.secret

    async def disable(self, webhook: Webhook) -> None:
        """The receiver said that it is gone: nothing more is put into the outbox for it."""

        def change(task: Task, there: Sequence[Webhook]) -> tuple[Sequence[Webhook], list[Write]]:
            if webhook not in there:
                return there, []  # replaced meanwhile
            after = replace(webhook, disabled=True)
            details = {"webhook_id": webhook.id, "url": webhook.shown_url}
            return [after if one == webhook else one for one in there], [
                PutWebhook(after),
                self._audit.of("webhook.disabled", task=task, details=details),
            ]

        await self._changed(webhook.task_id, change)

    # --- deliveries -------------------------------------------------------------------------------

    async def deliveries(
        self, caller: Caller, query: DeliveryQuery
    ) -> Sequence[tuple[int, Delivery]]:
        """A page of the caller's deliveries with their row numbers, newest first."""
        caller.require("task:read")
        if query.task_id:
            own(caller, await self._ledger.load(query.task_id))
        return await self._outbox.deliveries(replace(query, principal=caller.principal))

    async def redeliver(self, caller: Caller, delivery_id: str) -> Delivery:
        """Schedule a dead letter again. Raises DeliveryNotFound, DeliveryNotDead."""
        caller.require("webhook:manage")
        found = None
        if caller.principal:
            found = await self._outbox.delivery(delivery_id, caller.principal)
        if found is None:
            raise DeliveryNotFound
        again = redeliver(found, self._clock.now())
        details = {"delivery_id": delivery_id, "webhook_id": found.webhook_id}
        task = await self._ledger.load(found.task_id)
        record = self._audit.of("webhook.redelivered", task=task, details=details)
        try:
            await self._store.commit([UpdateDelivery(again, found.attempts), record])
        except CommitConflict:
            raise DeliveryNotFound from None
        self._ring()
        return again

    # --- inside -----------------------------------------------------------------------------------

    async def _changed(
        self,
        task_id: str,
        change: Callable[[Task, Sequence[Webhook]], tuple[Sequence[Webhook], list[Write]]],
        *,
        ended: Callable[[], Registered] | None = None,
    ) -> None:
        """Change the webhooks of a task in turn with everything else that happens to it.

        `ended` names a registration to which the end of a terminal task is posted.
        """
        for _ in range(TRIES):
            task = await self._ledger.load(task_id)
            revision = 0 if task is None else task.webhook_revision
            there = await self._outbox.webhooks(task_id)
            end = await self._end(task) if task is not None and ended is not None else []
            writes: list[Write] = []

            def command(
                draft: Draft,
                revision: int = revision,
                there: Sequence[Webhook] = there,
                writes: list[Write] = writes,
            ) -> None:
                if draft.task.webhook_revision != revision:
                    raise _Moved
                after, found = change(draft.task, there)
                writes[:] = found
                if found:
                    seen = draft.task.update_time
                    draft.webhook_count = len(after)
                    draft.update(webhook_revision=revision + 1)
                    # A webhook is beside the task: it does not count as a change of it.
                    draft.task = replace(draft.task, update_time=seen)
                    self._outgoings.remember(draft.task.id, revision + 1, after)

            def extra(
                draft: Draft, writes: list[Write] = writes, end: list[Event] = end
            ) -> Sequence[Write]:
                last = self._last(draft, end, ended) if ended is not None else []
                return [*writes, *last]

            try:
                await self._ledger.change(task_id, command, extra=extra)
            except _Moved:
                continue
            except Exception:
                self._outgoings.forget(task_id)
                raise
            return
        raise OutcomeUnknown

    async def _end(self, task: Task) -> list[Event]:
        """The event with which a terminal task ended."""
        if not task.terminal:
            return []
        history = await self._store.history(task.id)
        if not history:
            return []
        found = await self._store.events(task.id, history[-1].sequence - 1, 1)
        return [one for one in found if isinstance(one.payload, StatusChanged)]

    def _last(self, draft: Draft, end: list[Event], ended: Callable[[], Registered]) -> list[Write]:
        registered = ended()
        if not end or not registered.created or not wants(registered.webhook.events, end[0]):
            return []
        added = self._outgoings.delivery(registered.webhook, draft.task, end[0], draft.now)
        return [] if added is None else [added]

    def _register(self, task: Task, new: NewWebhook, same: Webhook | None) -> Registered:
        target = self._sender.check(new.url)
        signing_secret = ""
        if new.format is WebhookFormat.AIOS and not new.secret and not new.auth_credentials:
            signing_secret = make_secret(self._ids.secret().encode())
        webhook = Webhook(
            id=new.webhook_id or (same.id if same is not None else self._ids.new("webhook")),
            task_id=task.id,
            principal=task.principal,
            url=new.url,
            endpoint=target.endpoint,
            shown_url=target.shown,
            events=tuple(dict.fromkeys(new.events)),
            auth_scheme=new.auth_scheme,
            has_secret=bool(new.secret or signing_secret),
            max_retries=new.max_retries,
            retry_delay_ms=new.retry_delay_ms,
            format=new.format,
            create_time=self._clock.now(),
            tenant=new.tenant,
        )
        secrets = WebhookSecrets(
            secret=new.secret or signing_secret,
            credentials=new.auth_credentials,
            notification_token=new.notification_token,
        )
        sealed = self._safe.seal(webhook, secrets)
        writes = (PutWebhook(webhook), PutSecret(secret_id(webhook), task.id, sealed))
        return Registered(webhook, signing_secret, same is None, writes)

    def _check(self, new: NewWebhook, where: str) -> None:
        if not self._bodies.supports(new.format):
            raise ArgumentInvalid(f"{where}.format", "is not one that this daemon can write")
        check(new, where)
        self._sender.check(new.url)

    def _same(self, webhook: Webhook, new: NewWebhook) -> bool:
        if new.webhook_id:
            return webhook.id == new.webhook_id
        return webhook.url == new.url and webhook.format is new.format


def _find(webhooks: Sequence[Webhook], webhook_id: str) -> Webhook:
    found = next((one for one in webhooks if one.id == webhook_id), None)
    if found is None:
        raise WebhookNotFound
    return found
