"""Shrinks a failing run: fewer faults, clients and observers, less time, and the same violated invariant.

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002). Every fault draws
from a separate stream, so omitting one changes the others only through its effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.report import Report

MAX_RUNS = 150


class _Shrinking:
    def __init__(
        self, report: Report, run: Callable[[SimulationOptions], Report], may_continue: Callable[[], bool]
    ) -> None:
        self.best = report
        self.runs = 0
        self._invariant = report.violations[0].invariant
        self._run = run
        self._may_continue = may_continue

    @property
    def is_over(self) -> bool:
        return self.runs >= MAX_RUNS or not self._may_continue()

    def fails(self, options: SimulationOptions) -> bool:
        """Whether a run with these options violates the same invariant; if so, keep it as the best one."""
        if self.is_over:
            return False
        self.runs += 1
        report = self._run(options)
        if report.ok or report.violations[0].invariant != self._invariant:
            return False
        self.best = report
        return True


def shrink(
    report: Report,
    run: Callable[[SimulationOptions], Report],
    may_continue: Callable[[], bool] = lambda: True,
) -> Report:
    """Return the report of the shortest run found of the same seed that violates the invariant of `report`.

    `run` simulates the seed with other options. The search ends after MAX_RUNS runs, or once `may_continue` returns
    False.
    """
    work = _Shrinking(report, run, may_continue)
    broken_at_ms = report.violations[0].time_ms
    if broken_at_ms < report.options.safety_ms:
        work.fails(replace(report.options, safety_ms=broken_at_ms + 1.0))
    _fewer_faults(work)
    _fewer_machines(work)
    _less_time(work)
    _fewer_faults(work)
    return work.best


def _fewer_faults(work: _Shrinking) -> None:
    """Minimize the faults with ddmin: omit halves, then quarters, ... of the injected faults while the run fails."""
    faults = tuple(number for number, _, _ in work.best.injected)
    if faults and work.fails(replace(work.best.options, only_faults=())):
        return
    parts = 2
    while len(faults) > 1 and not work.is_over:
        size = -(-len(faults) // parts)
        for start in range(0, len(faults), size):
            rest = faults[:start] + faults[start + size :]
            if work.fails(replace(work.best.options, only_faults=rest)):
                faults, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                return
            parts = min(len(faults), parts * 2)


def _fewer_machines(work: _Shrinking) -> None:
    options = work.best.options
    if options.observers:
        work.fails(replace(options, observers=0))
    for clients in range(1, options.workload.clients):
        options = work.best.options
        if work.fails(replace(options, workload=replace(options.workload, clients=clients))):
            return


def _less_time(work: _Shrinking) -> None:
    for part in (0.25, 0.5, 0.75):
        options = work.best.options
        if work.fails(replace(options, safety_ms=options.safety_ms * part)):
            return
