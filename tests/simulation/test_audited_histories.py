"""Audits of what the simulator's nodes stored: no false alarm, no planted fault missed. 1,000 seeds of it are
`make audit-histories`."""

from __future__ import annotations

import pytest

from tests.simulation.audited_histories import FAULTS, Tally, audit_seed

SEEDS = 40


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_histories_are_audited_clean_and_planted_faults_are_found(first: int) -> None:
    tally = Tally()
    for seed in range(first, first + 10):
        audit_seed(seed, tally)
    assert tally.false_alarms == []
    assert tally.missed == []
    assert tally.histories >= 10
    assert set(tally.planted) == set(FAULTS)
