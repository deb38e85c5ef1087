"""Chaos on real processes: `make chaos`, or

    python -m tests.chaos [--seconds 1200] [--rounds N] [--nodes 3] [--seed N] [--fault "cut link"] [--keep-data]
    python -m tests.chaos --reassign [--rounds 100] [--nodes 5] [--seed N]

Faults are injected in rounds into a cluster of real daemons behind TCP proxies, while client processes write and
read, and a fleet of brokers without data registers, fails, shrinks ISRs and moves partitions. At the end the
histories are checked, logs and images are compared, and `quorumd pipeline audit` checks the logs. With --reassign
(`make chaos-reassign`) every round makes a random set of nodes the voters, while processes are killed. The output
is in build/chaos/ or build/chaos-reassign/: report.md, timeline.svg, rounds.json, audit.json, with --keep-data the
nodes' directories, and during the run (or after an anomaly) the directory of the run. The exit code is 0, or 1
after an anomaly.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from tests.chaos.audit import audit_by_command, pipeline_commands
from tests.chaos.faults import KINDS
from tests.chaos.report import Run, ambiguous_writes, write_report
from tests.chaos.run import run_chaos

OUTPUT = Path("build/chaos")
OUTPUT_OF_REASSIGNMENTS = Path("build/chaos-reassign")
SECONDS = 1200.0
MANY = 1_000_000
NODES = 3
REASSIGNMENTS = 100
NODES_TO_REASSIGN = 5


def show(text: str) -> None:
    """Print progress at once."""
    print(text, flush=True)


def main() -> int:
    """Run as the module docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Chaos on real processes.")
    parser.add_argument(
        "--reassign", action="store_true", help="change the voters in every round while processes are killed"
    )
    parser.add_argument(
        "--seconds", type=float, help=f"start rounds for this time; {SECONDS:.0f}, with --reassign unlimited"
    )
    parser.add_argument(
        "--rounds", type=int, help=f"maximum number of rounds; unlimited, with --reassign {REASSIGNMENTS}"
    )
    parser.add_argument(
        "--nodes", type=int, help=f"number of nodes; {NODES}, with --reassign {NODES_TO_REASSIGN}"
    )
    parser.add_argument("--seed", type=int, help="seed of faults and clients; timing still varies")
    names = {kind.kind: kind for kind in KINDS}
    parser.add_argument("--fault", choices=names, action="append", help="inject this fault; may be repeated")
    parser.add_argument(
        "--keep-data",
        action="store_true",
        help="copy the nodes' directories to `data` next to the report, and print `quorumd pipeline` commands for "
        "them",
    )
    given = parser.parse_args()
    if given.reassign and given.fault:
        parser.error("--reassign cannot be combined with --fault")
    kinds = None if given.reassign else [names[name] for name in given.fault or names]
    defaults = (MANY, REASSIGNMENTS, NODES_TO_REASSIGN) if given.reassign else (SECONDS, MANY, NODES)
    seconds, rounds, nodes = (
        value if value is not None else usual
        for value, usual in zip((given.seconds, given.rounds, given.nodes), defaults, strict=True)
    )
    # On SIGTERM, stop all processes of the run.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    seed = secrets.randbelow(MANY) if given.seed is None else given.seed
    output = OUTPUT_OF_REASSIGNMENTS if given.reassign else OUTPUT
    directory = output / f"run-{os.getpid()}"
    directory.mkdir(parents=True)
    run = run_chaos(
        directory.absolute(),
        seconds,
        rounds,
        nodes,
        seed,
        kinds,
        show,
        partial(audit_by_command, output, given.keep_data),
    )
    return conclude(run, directory, output, given.keep_data)


def conclude(run: Run, directory: Path, output: Path, keeps_data: bool) -> int:
    """Write the report, print the verdict and return the exit code; delete the run's directory unless there are
    anomalies."""
    write_report(run, output)
    show(f"report: {output / 'report.md'}")
    for anomaly in run.verdict.anomalies:
        show(f"ANOMALY: {anomaly}")
    if run.verdict.anomalies:
        show(f"logs and histories are kept in {directory}")
        return 1
    shutil.rmtree(directory)
    ambiguous = ambiguous_writes(run.histories)
    show(
        f"no anomaly in {len(run.rounds)} rounds; {len(run.histories.entries)} operations, {ambiguous} ambiguous"
    )
    if keeps_data:
        show("\n".join(["to inspect the log of these nodes:", *pipeline_commands(output)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
