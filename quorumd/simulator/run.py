"""Runs seeds one after the other."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation


def run_seeds(
    first_seed: int,
    count: int,
    options: SimulationOptions | None,
    progress: Callable[[Report], None],
) -> list[Report]:
    """Simulate `count` seeds from `first_seed` on; `options` None draws them from each seed.

    `progress` is called with each report as it is there.
    """
    reports = []
    for seed in range(first_seed, first_seed + count):
        report = Simulation(seed, options).run()
        reports.append(report)
        progress(report)
    return reports
