"""Idempotency keys over their life (X42, I03, I04)."""

from __future__ import annotations

import pytest

from aiosd.adapters.memory import MemoryStore
from aiosd.application.access import SCOPES, Caller
from aiosd.application.core import Core
from aiosd.application.creation import HOUR_MS, NewTask
from aiosd.application.errors import RequestIdConflict
from aiosd.application.limits import Limits
from aiosd.domain.capability import Capability, PermissionLevel
from tests.support.manual_clock import CountingIds, ManualClock, NoSchemas
from tests.support.trust import open_trust

ADA = Caller("ada", SCOPES)


async def a_core(clock: ManualClock) -> Core:
    core = Core(
        store=MemoryStore(),
        clock=clock,
        ids=CountingIds(),
        schemas=NoSchemas(),
        key=b"k" * 32,
        limits=Limits(),
        trust=open_trust(),
    )
    await core.start()
    await core.capabilities.remember([Capability("example.echo", PermissionLevel.PUBLIC)])
    return core


@pytest.mark.req("I03", "I04", "X42")
async def test_a_key_stands_for_one_request_as_long_as_it_is_kept() -> None:
    clock = ManualClock()
    core = await a_core(clock)
    first, created = await core.creation.create(ADA, NewTask("example.echo", request_id="k"))
    assert created
    clock.advance(24 * HOUR_MS)
    again, created = await core.creation.create(ADA, NewTask("example.echo", request_id="k"))
    assert (again.id, created) == (first.id, False)
    with pytest.raises(RequestIdConflict):
        await core.creation.create(
            ADA, NewTask("example.echo", arguments='{"n":1}', request_id="k")
        )


@pytest.mark.req("X42")
async def test_a_key_whose_time_is_over_may_be_used_again_before_any_sweep() -> None:
    clock = ManualClock()
    core = await a_core(clock)
    first, _ = await core.creation.create(ADA, NewTask("example.echo", request_id="k"))
    clock.advance(24 * HOUR_MS + 1)
    second, created = await core.creation.create(
        ADA, NewTask("example.echo", arguments='{"n":1}', request_id="k")
    )
    assert created
    assert second.id != first.id
