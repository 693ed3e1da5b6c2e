"""Posting in virtual time: the schedule of days, restarts, order, slots, the breaker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.adapters.memory import MemoryStore
from aiosd.application.ports import CommitUnknown
from aiosd.application.posting import ENDPOINT_SLOTS, SLOTS, Posting
from aiosd.application.trust_ports import DeliveryQuery, SecretUnreadable
from aiosd.application.trust_writes import PutSecret, PutWebhook
from aiosd.application.webhook_secrets import WebhookSafe
from aiosd.domain.webhook import SCHEDULE_MS, Answer, DeliveryState, Webhook
from tests.contract.builders import a_task, put
from tests.contract.trust_contract import a_delivery, a_webhook
from tests.support.manual_clock import START, LoopClock
from tests.support.trust import NoBodies, OpenVault, open_trust
from tests.support.virtual_loop import run_virtual
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.trust_ports import Target
    from aiosd.domain.webhook import WebhookFormat

HOUR_S = 3600.0


class JsonBodies(NoBodies):
    """Every format is JSON."""

    def content_type(self, form: WebhookFormat) -> str:
        """Of every body."""
        del form
        return "application/json"


@dataclass
class Scripted:
    """A sender that answers as `reply` says and keeps what was posted, and when."""

    reply: Callable[[str], Awaitable[Answer]]
    posted: list[tuple[float, str, bytes]] = field(default_factory=list)
    running: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    def check(self, url: str) -> Target:
        """Never asked."""
        raise AssertionError(url)

    async def send(self, url: str, headers: Sequence[tuple[str, str]], content: bytes) -> Answer:
        """One attempt."""
        endpoint = url.removesuffix("/hook")
        for name in (endpoint, "all"):
            self.running[name] += 1
            self.most[name] = max(self.most[name], self.running[name])
        self.posted.append((asyncio.get_running_loop().time(), endpoint, content))
        try:
            return await self.reply(endpoint)
        finally:
            for name in (endpoint, "all"):
                self.running[name] -= 1

    def times(self, endpoint: str) -> list[float]:
        """When it was posted to."""
        return [at for at, name, _ in self.posted if name == endpoint]


def answers(status: int, **members: Any) -> Callable[[str], Awaitable[Answer]]:
    async def reply(_: str) -> Answer:
        return Answer(status, error="" if status == 200 else f"HTTP {status}", **members)

    return reply


def a_posting(store: MemoryStore, sender: Scripted) -> Posting:
    trust = replace(open_trust(), sender=sender, bodies=JsonBodies())
    return Posting(store, store, trust, WebhookSafe(trust.vault, trust.redaction), LoopClock())


async def fill(
    store: MemoryStore, number: int, endpoint: str, count: int, **members: Any
) -> Webhook:
    task = a_task(number)
    webhook = replace(a_webhook(task.id, endpoint=endpoint), **members)
    added = [a_delivery(webhook, one, START) for one in range(1, count + 1)]
    await store.commit([put(task), PutWebhook(webhook), *added])
    return webhook


async def passing(seconds: float) -> None:
    """Let virtual time pass; none passes in reality."""
    await asyncio.sleep(seconds)


async def states(store: MemoryStore) -> Counter[DeliveryState]:
    found = await store.deliveries(DeliveryQuery("owner", limit=100_000))
    return Counter(one.state for _, one in found)


async def until_done(store: MemoryStore, posting: Posting, within_s: float) -> float:
    """Run until nothing is pending; the virtual time it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    running = asyncio.ensure_future(posting.run())
    try:

        async def done() -> bool:
            return not (await states(store))[DeliveryState.PENDING]

        await eventually(done, within_s=within_s)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return loop.time() - began


@pytest.mark.req("S-26", "I33")
def test_the_schedule_of_days_is_kept() -> None:
    async def main() -> None:
        store, sender = MemoryStore(), Scripted(answers(500))
        await fill(store, 1, "https://a", 1)
        posting = a_posting(store, sender)
        running = asyncio.ensure_future(posting.run())
        await passing(40 * HOUR_S)
        running.cancel()
        times = sender.times("https://a")
        pauses = [(b - a) * 1000 for a, b in pairwise(times)]
        assert len(times) == 1 + len(SCHEDULE_MS)
        for pause, planned in zip(pauses, SCHEDULE_MS, strict=True):
            assert 0.79 * planned <= pause <= 1.21 * planned
        assert (await states(store)) == {DeliveryState.DEAD_LETTER: 1}

    run_virtual(main)


@pytest.mark.req("R133", "I33", "I34")
def test_a_restart_keeps_schedule_ids_and_contents() -> None:
    async def main() -> None:
        store, sender = MemoryStore(), Scripted(answers(500))
        await fill(store, 1, "https://a", 1, max_retries=3, retry_delay_ms=60_000)
        for _ in range(4):
            running = asyncio.ensure_future(a_posting(store, sender).run())
            await passing(61)
            running.cancel()
        assert len(sender.posted) == 4
        assert len({content for *_, content in sender.posted}) == 1
        assert (await states(store)) == {DeliveryState.DEAD_LETTER: 1}

    run_virtual(main)


@pytest.mark.req("R133", "I33")
def test_an_attempt_that_dies_with_the_daemon_is_made_again() -> None:
    async def main() -> None:
        async def hang(_: str) -> Answer:
            await passing(1e6)
            return Answer(200)

        store = MemoryStore()
        await fill(store, 1, "https://a", 1)
        first = asyncio.ensure_future(a_posting(store, Scripted(hang)).run())
        await passing(1)
        first.cancel()
        again = Scripted(answers(200))
        await until_done(store, a_posting(store, again), 60)
        assert len(again.posted) == 1

    run_virtual(main)


@pytest.mark.req("H24", "I35", "S-26")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_order_and_slots_hold_whatever_the_receivers_do(seed: int) -> None:
    async def main() -> None:
        async def reply(endpoint: str) -> Answer:
            slow = endpoint != "https://good"
            await passing(15 if slow else 0.005)
            return Answer(0 if slow else 200, error="no answer" if slow else "")

        store, sender = MemoryStore(), Scripted(reply)
        for number in range(2, 42):
            await fill(store, number, f"https://slow{number % 20}", 3)
        posting = a_posting(store, sender)
        running = asyncio.ensure_future(posting.run())
        await passing(120)  # the slow ones are known by now
        began = asyncio.get_running_loop().time()
        await fill(store, 1, "https://good", 200)
        posting.ring()

        async def all_there() -> bool:
            return len(sender.times("https://good")) >= 200

        await eventually(all_there, within_s=60)
        assert asyncio.get_running_loop().time() - began < 10
        contents = [body for _, name, body in sender.posted if name == "https://good"]
        assert contents == [f"content {one}".encode() for one in range(1, 201)]
        assert sender.most["all"] <= SLOTS
        assert max(n for name, n in sender.most.items() if name != "all") <= ENDPOINT_SLOTS
        running.cancel()

    run_virtual(main, seed)


@pytest.mark.req("S-26")
def test_a_dead_endpoint_rests_but_a_pace_that_the_caller_named_is_kept() -> None:
    async def main() -> None:
        store, sender = MemoryStore(), Scripted(answers(503))
        for number in range(1, 31):
            await fill(store, number, "https://dead", 1)
        await fill(store, 99, "https://dead", 1, max_retries=5, retry_delay_ms=1_000)
        running = asyncio.ensure_future(a_posting(store, sender).run())
        await passing(30)
        running.cancel()
        paced = [at for at, _, _ in sender.posted]
        found = await store.deliveries(DeliveryQuery("owner", limit=1000))
        tried = [one.attempts for _, one in found if one.state is DeliveryState.PENDING]
        dead = [one for _, one in found if one.state is DeliveryState.DEAD_LETTER]
        assert [one.attempts for one in dead] == [6]
        assert sum(tried) + 6 == len(paced)
        assert sum(tried) <= 30  # after twenty failures in a row nothing new is begun
        assert min(tried) == 0

    run_virtual(main)


@pytest.mark.req("R130")
def test_a_store_that_is_away_for_a_while_costs_nothing_but_time() -> None:
    async def main() -> None:
        failing = True

        async def before(writes: object) -> None:
            if failing and any(type(one).__name__ == "UpdateDelivery" for one in writes):  # type: ignore[attr-defined]
                raise CommitUnknown

        store, sender = MemoryStore(before=before), Scripted(answers(200))
        await fill(store, 1, "https://a", 2)
        running = asyncio.ensure_future(a_posting(store, sender).run())
        await passing(5)
        failing = False
        await passing(5)
        running.cancel()
        assert (await states(store)) == {DeliveryState.SUCCEEDED: 2}
        assert 3 <= len(sender.posted) <= 10

    run_virtual(main)


@pytest.mark.req("S-28")
def test_without_the_key_nothing_is_posted_and_nothing_falls_back_to_plaintext() -> None:
    class LockedVault(OpenVault):
        def open(self, secret_id: str, principal: str, sealed: bytes) -> bytes:
            """The key is lost."""
            raise SecretUnreadable

    async def main() -> None:
        store, sender = MemoryStore(), Scripted(answers(200))
        webhook = await fill(store, 1, "https://a", 1, max_retries=1, retry_delay_ms=10)
        name = f"webhook:{webhook.task_id}:{webhook.id}"
        await store.commit([PutSecret(name, webhook.task_id, b"sealed")])
        trust = replace(open_trust(), sender=sender, bodies=JsonBodies(), vault=LockedVault())
        safe = WebhookSafe(trust.vault, trust.redaction)
        await until_done(store, Posting(store, store, trust, safe, LoopClock()), 10)
        assert sender.posted == []
        ((_, dead),) = await store.deliveries(DeliveryQuery("owner"))
        assert dead.state is DeliveryState.DEAD_LETTER
        assert "present key" in dead.last_error

    run_virtual(main)
