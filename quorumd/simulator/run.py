"""Runs consecutive seeds."""

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
    """Simulate `count` seeds starting with `first_seed`; without `options` they are drawn from each seed.

    `progress` is called with each report when its run ends.
    """
    reports = []
    for seed in range(first_seed, first_seed + count):
        report = Simulation(seed, options).run()
        reports.append(report)
        progress(report)
    return reports
