"""The oracle notices each planted fault within the seeds that every push runs."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.run import simulate

SEEDS = 200


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_fault_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant](monkeypatch)
    assert any(simulate(seed).verdict for seed in range(SEEDS))
