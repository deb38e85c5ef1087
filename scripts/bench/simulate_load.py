"""Simulates one load in a separate process and prints the time; started by `simulator`.

    python simulate_load.py '{"clients": 3, "think_ms": [5, 80], "safety_ms": 10000, "faults": false, "seeds": 1}'

It prints one JSON object, or exits with 1 for an invariant violation, and imports only quorumd, so that any package
can be measured.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from quorumd.simulator.options import FAULT_NAMES, SimulationOptions
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload import WorkloadOptions

REFERENCE_TURNS = 2_000_000


def main(job: dict[str, Any]) -> int:
    options = SimulationOptions(
        voters=5,
        safety_ms=job["safety_ms"],
        faults=dict.fromkeys(FAULT_NAMES, 1.0) if job["faults"] else {},
        workload=WorkloadOptions(
            clients=job["clients"],
            think_ms=tuple(job["think_ms"]),
            # Reads are cheaper than writes, which dominate the load of a quorum.
            read_share=0.1,
        ),
    )
    # Nodes log the injected faults.
    logging.disable(logging.CRITICAL)
    reference_ns = _reference_ns()
    virtual_ms, events, writes, operations = 0.0, 0, 0, 0
    cpu_began, wall_began = time.process_time(), time.perf_counter()
    for seed in range(1, job["seeds"] + 1):
        report = Simulation(seed, options).run()
        if not report.ok:
            print(f"seed {seed}: {report.violations[0]}", file=sys.stderr)
            return 1
        virtual_ms += report.virtual_ms
        events += report.events
        writes += report.counters["acknowledged writes"]
        operations += report.counters["operations"]
    parsed = {
        "cpu_seconds": time.process_time() - cpu_began,
        "wall_seconds": time.perf_counter() - wall_began,
        "virtual_seconds": virtual_ms / 1000.0,
        "events": events,
        "writes": writes,
        "operations": operations,
        "reference_ns": reference_ns,
    }
    print(json.dumps(parsed))
    return 0


def _reference_ns() -> float:
    """Return the CPU time of one iteration of an empty loop, as a measure of the speed of Python on this machine."""
    began, total = time.process_time_ns(), 0
    for turn in range(REFERENCE_TURNS):
        total += turn
    return (time.process_time_ns() - began) / REFERENCE_TURNS


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
