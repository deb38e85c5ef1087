"""Chaos on real processes: `make chaos`, or

    python -m tests.chaos [--seconds 1200] [--rounds N] [--nodes 3] [--seed N] [--fault "cut link"]

A cluster of real daemons behind TCP proxies is hurt round after round while client processes write and read;
at the end the histories are checked, and the logs are compared. Everything is under build/chaos/: report.md,
timeline.svg, rounds.json, and while it runs (and if something was wrong also afterwards) the folder of the run.
Exit code 0 if nothing was wrong, 1 for an anomaly.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.chaos.cluster import chaos_cluster
from tests.chaos.faults import KINDS, Anomaly, Deck, Fault
from tests.chaos.history import Histories
from tests.chaos.machine import MachineWatch
from tests.chaos.report import Run, ambiguous_writes, write_report
from tests.chaos.rounds import Chaos, client_processes
from tests.chaos.verdict import Verdict, judge

OUTPUT = Path("build/chaos")
MANY = 1_000_000


def tell(text: str) -> None:
    """Progress, at once."""
    print(text, flush=True)


def run_chaos(
    folder: Path, seconds: float, most_rounds: int, nodes: int, seed: int, kinds: Sequence[type[Fault]]
) -> Run:
    """One run in a new folder. What went wrong is in the verdict, not an exception."""
    chaos: Chaos | None = None
    histories = Histories([])
    disk_kind = ""
    began = time.monotonic()
    machine = MachineWatch(folder)
    try:
        with chaos_cluster(folder, nodes) as cluster:
            disk_kind = cluster.disk.kind
            tell(f"{nodes} nodes run, the disk of node {cluster.small.node_id} is {disk_kind}; seed {seed}")
            with client_processes(folder, cluster.front_addresses, seed) as histories:
                random = Random(seed)
                chaos = Chaos(cluster, histories, random, Deck(random, kinds), machine, tell)
                chaos.run(time.monotonic() + seconds, most_rounds)
            tell("all rounds are done: checking histories and logs")
            verdict = judge(cluster, histories)
    except (Anomaly, AssertionError) as anomaly:
        verdict = Verdict([f"{type(anomaly).__name__}: {anomaly}"])
    finally:
        machine.stop()
    rounds = chaos.rounds if chaos else []
    began_ms = chaos.began_ms if chaos else 0.0
    return Run(
        rounds, histories, verdict, began_ms, time.monotonic() - began, nodes, seed, disk_kind, machine.told()
    )


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Chaos on real processes.")
    parser.add_argument("--seconds", type=float, default=1200, help="how long rounds are begun")
    parser.add_argument("--rounds", type=int, default=MANY, help="at most so many rounds")
    parser.add_argument("--nodes", type=int, default=3, help="voters")
    parser.add_argument(
        "--seed", type=int, help="of the faults and of the clients; timing differs all the same"
    )
    names = {kind.kind: kind for kind in KINDS}
    parser.add_argument("--fault", choices=names, action="append", help="only these kinds; may be repeated")
    given = parser.parse_args()
    kinds = [names[name] for name in given.fault or names]
    # Told to stop, it stops what it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    seed = secrets.randbelow(MANY) if given.seed is None else given.seed
    folder = OUTPUT / f"run-{os.getpid()}"
    folder.mkdir(parents=True)
    run = run_chaos(folder.absolute(), given.seconds, given.rounds, given.nodes, seed, kinds)
    write_report(run, OUTPUT)
    tell(f"report: {OUTPUT / 'report.md'}")
    for anomaly in run.verdict.anomalies:
        tell(f"ANOMALY: {anomaly}")
    if run.verdict.anomalies:
        tell(f"logs and histories are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    ambiguous = ambiguous_writes(run.histories)
    tell(
        f"no anomaly in {len(run.rounds)} rounds; {len(run.histories.entries)} operations, {ambiguous} ambiguous"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
