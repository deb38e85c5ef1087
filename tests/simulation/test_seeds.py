"""Fresh seeds every day: clusters under faults, with every invariant checked after every event.

The first seed is QUORUMD_SEED, or made from the date, so that every run of a day is the same and every day is
another. QUORUMD_SEEDS says how many. A failure prints how to see it again.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from quorumd.simulator.simulation import Simulation

FIRST = int(os.environ.get("QUORUMD_SEED") or datetime.now(UTC).strftime("%Y%m%d")) * 1000
COUNT = int(os.environ.get("QUORUMD_SEEDS") or 200)
CHUNK = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_fresh_seeds_hold_every_invariant(first: int) -> None:
    reports = [Simulation(seed).run() for seed in range(first, first + CHUNK)]
    assert not [str(report) for report in reports if not report.ok]
    assert sum(report.counters["acknowledged writes"] for report in reports) > 0
