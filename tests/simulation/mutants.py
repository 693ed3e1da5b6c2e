"""Broken versions of the core: an oracle that lets one of them pass is worth nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from aiosd.adapters.memory import MemoryStore
from aiosd.application.creation import Creation
from aiosd.application.ports import CommitConflict, CommitUnknown, StoreFull
from aiosd.application.sessions import Session, Sessions
from aiosd.domain import lifecycle, reports
from aiosd.domain.event import AttemptChanged
from aiosd.domain.task import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from aiosd.application.writes import Write
    from aiosd.domain.draft import Draft


def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reports is believed."""
    monkeypatch.setattr(reports, "check_holder", lambda *_: None)


def answer_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Success is answered while the store is still at work, whatever comes of it."""
    running: set[asyncio.Task[None]] = set()
    store = MemoryStore.commit

    async def commit(self: MemoryStore, writes: Sequence[Write]) -> None:
        async def later() -> None:
            with suppress(CommitConflict, CommitUnknown, StoreFull):
                await store(self, writes)

        task = asyncio.ensure_future(later())
        running.add(task)
        task.add_done_callback(running.discard)

    monkeypatch.setattr(MemoryStore, "commit", commit)


def retry_the_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost attempt is simply tried again."""

    def lose(draft: Draft) -> None:
        task = draft.task
        if task.held and not task.terminal:
            draft.emit(AttemptChanged(task.attempt.number, "lost", "agent_lost"))
            draft.update(attempt=replace(task.attempt, holder="", reports=0), phase=Phase.QUEUED)

    monkeypatch.setattr(lifecycle, "lose", lose)


def forget_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The idempotency key is not stored with the task."""
    monkeypatch.setattr(Creation, "_key", lambda *_: [])


def rescue_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is lost some time after it attached, however lively it is."""
    renew = Sessions._renew

    def once(self: Sessions, session: Session) -> None:
        if not session.lease_end or not session.connected:
            renew(self, session)

    monkeypatch.setattr(Sessions, "_renew", once)


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no fence": no_fence,
    "answer before the commit": answer_before_the_commit,
    "retry the uncertain": retry_the_uncertain,
    "forget the key": forget_the_key,
    "rescue by time": rescue_by_time,
}
