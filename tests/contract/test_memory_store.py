"""The store in memory keeps the contract, and fails when it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.adapters.memory import MemoryStore
from aiosd.application.ports import CommitUnknown
from tests.contract.access_contract import AccessContract
from tests.contract.builders import a_task, put
from tests.contract.listing_contract import ListContract, QueueContract
from tests.contract.runtime_contract import RuntimeContract
from tests.contract.store_contract import CommitContract, OwnershipContract
from tests.contract.trust_contract import TrustContract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.writes import Write


class TestMemoryStore(
    CommitContract,
    OwnershipContract,
    QueueContract,
    ListContract,
    RuntimeContract,
    TrustContract,
    AccessContract,
):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


async def _fail(_: Sequence[Write]) -> None:
    raise CommitUnknown("injected")


async def test_a_fault_before_a_commit_leaves_nothing() -> None:
    store = MemoryStore(before=_fail)
    with pytest.raises(CommitUnknown):
        await store.commit([put(a_task())])
    assert await store.task(a_task().id) is None


async def test_a_fault_after_a_commit_leaves_everything() -> None:
    store = MemoryStore(after=_fail)
    with pytest.raises(CommitUnknown):
        await store.commit([put(a_task())])
    assert await store.task(a_task().id) == a_task()


async def test_it_is_always_well() -> None:
    store = MemoryStore()
    assert not store.health()
    await store.close()
