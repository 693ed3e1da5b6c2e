"""The store on SQLite keeps the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aiosd.adapters.sqlite import SqliteStore
from tests.contract.access_contract import AccessContract
from tests.contract.listing_contract import ListContract, QueueContract
from tests.contract.runtime_contract import RuntimeContract
from tests.contract.store_contract import CommitContract, OwnershipContract
from tests.contract.trust_contract import TrustContract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class TestSqliteStore(
    CommitContract,
    OwnershipContract,
    QueueContract,
    ListContract,
    RuntimeContract,
    TrustContract,
    AccessContract,
):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore.open(tmp_path / "aiosd.db")
        yield store
        assert not store.health()
        await store.close()
