"""An attack, its execution and its row in the table."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.attacks.field import Field
from tests.attacks.probe import Interval
from tests.attacks.target import Target
from tests.support.processes.daemons import Cluster

MAX_GROWTH_MIB = 128
MAX_CPU_MS = 50.0
"""The processor time for which a node may let another client's request wait: less than a tenth of any timeout."""
MAX_STALL_MS = 1000.0
"""The longest time without a commit, whatever else the machine does: half of the timeouts after which leadership is
lost."""
ELECTION_MS = 8000.0
"""The longest time without a commit in attacks that stop the leader; an election fits into it."""
MAX_LOG_BYTES = 256 * 1024
"""The bytes that an attack may add to the text log of a node."""
NICENESS = 10
"""The niceness of the attacking process: real attackers use machines of their own."""
PATIENCE_S = 120.0


def _nothing(field: Field) -> None:
    del field


def _no_harm(field: Field) -> list[str]:
    del field
    return []


class Attack(NamedTuple):
    """An attack and its checks."""

    name: str
    strike: Callable[[Target], None]
    """The attack, which runs in a process of its own."""
    seconds: float = 5.0
    before: Callable[[Field], None] = _nothing
    """Prepares the cluster before the attack."""
    verify: Callable[[Field], list[str]] = _no_harm
    """Returns the harm that the measurements do not show."""
    deposes: bool = False
    """Whether `before` or `verify` stops nodes, so that the leader may change."""


class Row(NamedTuple):
    """The measurements of an attack."""

    name: str
    measured: Interval
    growth_mib: int
    log_bytes_per_s: int
    """Bytes per second that were added to the text log of the node whose log grew most."""
    leader_kept: bool
    harm: list[str]
    """The exceeded bounds, and what `verify` found."""


def execute(attack: Attack, field: Field, scale: float = 1.0) -> Row:
    """Attack the cluster of a field; stopped nodes are restarted before and afterwards."""
    cluster = field.cluster
    cluster.heal()
    # The target is determined before nodes are stopped: without a leader no node describes the quorum.
    target = field.target(attack.seconds * scale)
    attack.before(field)
    target.down = [daemon.node_id for daemon in cluster if not daemon.runs]
    logged = {daemon.node_id: daemon.output.stat().st_size for daemon in cluster}
    began = time.monotonic()
    field.mark()
    harm = _strike(attack, target)
    measured = field.probe.report()
    growth = field.peak_mib()
    exited = [daemon.node_id for daemon in cluster if not daemon.runs and daemon.node_id not in target.down]
    harm += [f"node {node_id} exited" for node_id in exited]
    harm += attack.verify(field)
    cluster.heal()
    kept = _leader_kept(cluster, target)
    grown = {daemon.node_id: daemon.output.stat().st_size - logged[daemon.node_id] for daemon in cluster}
    log_rate = round(max(grown.values()) / (time.monotonic() - began))
    held = max(measured.commit_cpu_ms, measured.wait_cpu_ms)
    if not attack.deposes and not kept:
        harm.append("the leader changed")
    if held > MAX_CPU_MS:
        harm.append(f"a request waited for {held:.0f} ms of processor time")
    if measured.stall_ms - measured.machine_ms > (ELECTION_MS if attack.deposes else MAX_STALL_MS):
        harm.append(f"no commit for {measured.stall_ms:.0f} ms")
    if growth > MAX_GROWTH_MIB:
        harm.append(f"memory grew by {growth} MiB")
    harm += [
        f"the log of node {node_id} grew by {size // 1024} KiB"
        for node_id, size in grown.items()
        if size > MAX_LOG_BYTES
    ]
    return Row(attack.name, measured, growth, log_rate, kept, harm)


def _strike(attack: Attack, target: Target) -> list[str]:
    process = multiprocessing.get_context("spawn").Process(target=_attack, args=(attack.strike, target))
    process.start()
    process.join(PATIENCE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        return ["the attack did not end"]
    return [] if process.exitcode == 0 else ["the attack failed"]


def _attack(strike: Callable[[Target], None], target: Target) -> None:
    os.nice(NICENESS)
    strike(target)


def _leader_kept(cluster: Cluster, target: Target) -> bool:
    now = cluster.leader_quorum()
    return (now.leader, now.epoch) == (target.leader, target.epoch)
