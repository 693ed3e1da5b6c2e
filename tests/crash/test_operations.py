"""kill -9 of the instance and of the daemon before, during and after an effect (R163-R167).

What an operation says in the end is compared with the marks that its effect left in a file.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from aiosd.api.v1 import operation_pb2
from aiosd.sdk import Client, connect
from tests.support.operation_consistency import check_log, log_of, seen
from tests.support.programs import Programs
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.programs import Program

#: Seeds: the few have a command that expires, kills of both, and an effect; the many go on after.
FEW = range(1, 4)
MANY = range(4, 204)
#: An instance that lives must never be taken for a dead one, however busy the machine is; but who
#: kills it has to wait for this.
LEASE_MS = 1_500
LONG_LEASE_MS = 4_000
#: Bounds of waits that end as soon as what is waited for is there.
PATIENCE_S = 60.0
ROUND_S = 180.0


@pytest.fixture
async def programs(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Programs]:
    started = Programs(
        tmp_path,
        heartbeat_interval_ms=100,
        lease_ms=getattr(request, "param", LEASE_MS),
        reattach_window_ms=int(PATIENCE_S * 1000),
        cancel_grace_ms=500,
    )
    yield started
    await started.aclose()


class Rounds:
    """One daemon and one instance, killed again and again."""

    def __init__(self, programs: Programs, client: Client, marks: Path) -> None:
        self._programs = programs
        self._client = client
        self._marks = marks
        self.daemon: Program
        self.instance: Program
        self.verdicts: Counter[str] = Counter()

    async def start_instance(self) -> None:
        self.instance = await self._programs.start(
            "instance", "-m", "tests.support.marking_instance", str(self._marks)
        )

    def marked(self, word: str, operation_id: str) -> int:
        lines = self._marks.read_text().splitlines() if self._marks.exists() else []
        return lines.count(f"{word} {operation_id}")

    async def play(self, seed: int) -> None:
        """One operation, one kill, one truth."""
        rng = random.Random(seed)
        if rng.random() < 0.15:
            await self._expire()
            return
        params = {"before_ms": rng.randint(0, 120), "after_ms": rng.randint(0, 120)}
        made = await self._client.operations.create("marking", "mark", params)
        operation_id = made.operation_id
        moment = rng.choice(("at once", "begun", "effect", "later"))
        if moment in ("begun", "effect"):
            await self._until_marked(moment, operation_id)
        elif moment == "later":
            await asyncio.sleep(rng.random() * 0.4)
        begun = self.marked("begun", operation_id)
        victim = rng.choice(("daemon", "instance"))
        if victim == "daemon":
            await self.daemon.kill()
            self.daemon = await self._programs.daemon()
        else:
            await self.instance.kill()
            await self.start_instance()
        done = await self._judge(operation_id)
        if victim == "daemon" and begun:
            # The instance lived all the time and came back: nothing may be in doubt.
            assert done.status == operation_pb2.OPERATION_STATUS_SUCCEEDED

    async def _expire(self) -> None:
        await self.instance.kill()
        made = await self._client.operations.create("marking", "mark", deadline_ms=100)
        done = await self._judge(made.operation_id)
        # Given to the instance before its death was noticed, nobody can know.
        assert done.status in (
            operation_pb2.OPERATION_STATUS_EXPIRED,
            operation_pb2.OPERATION_STATUS_OUTCOME_UNKNOWN,
        )
        await self.start_instance()

    async def _until_marked(self, word: str, operation_id: str) -> None:
        async def look() -> int:
            return self.marked(word, operation_id)

        await eventually(look, within_s=PATIENCE_S)

    async def _judge(self, operation_id: str) -> operation_pb2.Operation:
        events = [one async for one in self._client.operations.subscribe(operation_id)]
        check_log(log_of(events), complete=True)
        done = await self._client.operations.get(operation_id)
        effects = self.marked("effect", operation_id)
        assert self.marked("begun", operation_id) <= 1, "executed twice"
        match word := seen(done).status:
            case "succeeded":
                assert effects == 1
            case "failed" | "cancelled" | "expired":
                assert effects == 0
            case _:
                assert word == "outcome_unknown"
        self.verdicts[word] += 1
        return done


async def play(programs: Programs, tmp_path: Path, seeds: range) -> Rounds:
    daemon = await programs.daemon()
    async with connect(programs.address, patience_ms=int(PATIENCE_S * 1000)) as client:
        rounds = Rounds(programs, client, tmp_path / "marks")
        rounds.daemon = daemon
        await rounds.start_instance()
        for seed in seeds:
            try:
                async with asyncio.timeout(ROUND_S):
                    await rounds.play(seed)
            except BaseException as failure:
                failure.add_note(f"round {seed}; {programs.log('daemon')[-1500:]}")
                raise
        # No effect came late, after its operation had been judged.
        marks = Counter((tmp_path / "marks").read_text().splitlines())
        assert max(marks.values()) == 1
    return rounds


@pytest.mark.timeout(300)
@pytest.mark.req("R163", "R165", "R166", "R167", "I16", "I17", "I19")
async def test_operations_tell_the_truth_whoever_is_killed(
    programs: Programs, tmp_path: Path
) -> None:
    await play(programs, tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("programs", [LONG_LEASE_MS], indirect=True, ids=["patient"])
@pytest.mark.req("R163", "R165", "R166", "R167", "I16", "I17", "I19")
async def test_operations_tell_the_truth_over_two_hundred_kills(
    programs: Programs, tmp_path: Path
) -> None:
    rounds = await play(programs, tmp_path, MANY)
    assert {"succeeded", "outcome_unknown", "expired"} <= set(rounds.verdicts)
