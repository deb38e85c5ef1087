"""Seeds that found a defect of the code, of a checker or of its bounds hold."""

from __future__ import annotations

import pytest

from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.simulation import Simulation


@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        ("operators", 3),  # A null value removed the cluster-wide min.insync.replicas.
        ("removals", 71),  # An operator kept a connection per request, more than the bound of sessions.
    ],
)
def test_kept_seed_holds(profile: str, seed: int) -> None:
    report = Simulation(seed, draw_options(seed, profile)).run()
    assert report.ok, str(report)
