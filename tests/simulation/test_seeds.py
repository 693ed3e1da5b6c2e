"""Random histories of the whole core in virtual time, judged by an oracle.

`make test` runs 200 seeds, `make sim` thousands, `make sim SEED=7` one, with its story.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.run import simulate, story

ONE = os.environ.get("AIOSD_SIM_SEED", "")
COUNT = int(os.environ.get("AIOSD_SIM_SEEDS") or 200)
TOGETHER = 25


@pytest.mark.req("I01", "I03", "I08", "I09", "I10", "I13", "I14", "I15", "I16", "I17", "I18")
@pytest.mark.req("I19", "I21", "I25", "I27", "I28", "I29", "I30", "R042", "R091", "R092", "R147")
@pytest.mark.req("H03", "H04", "H10", "H14")
@pytest.mark.parametrize("first", [int(ONE)] if ONE else range(0, COUNT, TOGETHER))
def test_no_history_breaks_a_promise(first: int) -> None:
    for seed in range(first, first + 1 if ONE else min(first + TOGETHER, COUNT)):
        run = simulate(seed)
        assert not run.verdict, story(run) if ONE else str(run)


def test_a_seed_is_a_history() -> None:
    first, again = simulate(11), simulate(11)
    assert first.world.faults.events == again.world.faults.events
    assert len(first.world.faults.events) > 50
