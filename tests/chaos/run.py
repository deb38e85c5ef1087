"""A run of chaos: a cluster, its clients and brokers, the rounds and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from tests.chaos.audit import Audit, audit_in_process
from tests.chaos.cluster import chaos_cluster
from tests.chaos.faults import Anomaly, Deck, Fault
from tests.chaos.fleet.process import CALM_S, fleet_process
from tests.chaos.history import Histories
from tests.chaos.machine import MachineWatch, Patience
from tests.chaos.reassignments import Reassignments
from tests.chaos.report import Run
from tests.chaos.rounds import Chaos, Faults, client_processes
from tests.chaos.verdict import Verdict, judge, judge_fleet

FIRST_VOTERS = 3
"""The initial number of voters in a run of reassignments."""


def run_chaos(
    directory: Path,
    seconds: float,
    most_rounds: int,
    nodes: int,
    seed: int,
    kinds: Sequence[type[Fault]] | None,
    show: Callable[[str], None],
    audit: Callable[[Mapping[int, Path]], Audit] = audit_in_process,
) -> Run:
    """Run chaos in a directory, and return its results; anomalies are in the verdict and raise no exception.

    `kinds` are the faults to inject; None reassigns the voters instead. `audit` checks the data directories of the
    nodes, by node id.
    """
    chaos: Chaos | None = None
    histories = Histories([])
    disk_kind = ""
    audited = Audit("")
    began = time.monotonic()
    machine = MachineWatch(directory)
    try:
        with chaos_cluster(directory, nodes, FIRST_VOTERS if kinds is None else nodes) as cluster:
            disk_kind = cluster.disk.kind
            show(f"{nodes} nodes run, the disk of node {cluster.small.node_id} is {disk_kind}; seed {seed}")
            with fleet_process(directory, cluster.front_addresses, seed) as fleet:
                with client_processes(directory, cluster.front_addresses, seed) as histories:
                    random = Random(seed)
                    if kinds is None:
                        chaos = Reassignments(cluster, histories, random, machine, show)
                    else:
                        chaos = Faults(cluster, histories, random, machine, show, Deck(random, kinds))
                    chaos.run(time.monotonic() + seconds, most_rounds)
                fleet.rest(Patience(CALM_S, machine))
                show("all rounds are complete: checking histories and logs")
                verdict = judge(cluster, histories)
            judge_fleet(verdict, fleet.history)
            data_directories = {daemon.node_id: daemon.data for daemon in cluster}
            show("auditing the logs")
            audited = audit(data_directories)
            verdict.anomalies += audited.anomalies
    except (Anomaly, AssertionError) as anomaly:
        verdict = Verdict([f"{type(anomaly).__name__}: {anomaly}"])
    finally:
        machine.stop()
    rounds, began_ms = (chaos.rounds, chaos.began_ms) if chaos else ([], 0.0)
    return Run(
        rounds, histories, verdict, began_ms, time.monotonic() - began, nodes, seed, disk_kind, machine.summary(),
        audited.text,
    )  # fmt: skip
