"""Operators that copy snapshots between nodes without syncing them."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name, parse_snapshot_name
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY

PARTITION = partition_directory(DATA_DIRECTORY)
QUORUM_STATE = "quorum-state"
MAX_ABSENCE_MS = 2000.0
MAX_DELAY_TO_POWER_LOSS_MS = 300.0


class CopiedSnapshots:
    """The snapshots of one node are copied to another node, which is running or was down while the log grew. Soon
    afterwards the target loses power: by then its log may start at a copied snapshot, which it must have made durable
    itself."""

    name = "copied snapshots"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.running()) > 1 and any(_snapshots(machine) for machine in cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(cluster.running())
        if random.random() < 0.5:
            self._copy_to_running(cluster, random, machine)
        else:
            cluster.kill(machine.node_id)
            absence_ms = random.random() * MAX_ABSENCE_MS
            cluster.heap.call_later(
                absence_ms, partial(self._copy_and_boot, cluster, random, machine), b"copy"
            )

    def _copy_to_running(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        node = machine.node
        if node is None or machine.exiting:
            return
        source = _best_source(cluster, machine)
        known = node.engine.high_watermark
        wanted = [snapshot for snapshot in _snapshots(source) if snapshot.offset <= known]
        _copy(cluster, source, machine, wanted)
        self._lose_power(cluster, random, machine, 2.0 * cluster.options.maintenance_interval_ms)

    def _copy_and_boot(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        if machine.process is not None or machine.retired:
            return
        source, kept = _best_source(cluster, machine), machine.recoverable_batches
        if QUORUM_STATE not in machine.disk.durable_names(PARTITION):
            source = None  # a log without its vote is refused
        # Records that only this node has were never committed, and would be removed.
        if source is not None and source.mirror.batches[: len(kept)] == kept:
            _copy(cluster, source, machine, _snapshots(source))
        cluster.boot(machine.node_id)
        self._lose_power(cluster, random, machine, MAX_DELAY_TO_POWER_LOSS_MS)

    def _lose_power(self, cluster: Cluster, random: Random, machine: Machine, longest_ms: float) -> None:
        incarnation = machine.incarnation

        def lose_power() -> None:
            if machine.incarnation == incarnation and machine.process is not None:
                cluster.lose_power(machine.node_id)
                cluster.restart_later(machine.node_id)

        cluster.heap.call_later(random.random() * longest_ms, lose_power, b"power")


def _best_source(cluster: Cluster, target: Machine) -> Machine | None:
    """Return the other running machine with the newest snapshot."""
    found = [machine for machine in cluster.running() if machine is not target and _snapshots(machine)]
    return max(found, key=lambda machine: _snapshots(machine)[-1], default=None)


def _snapshots(machine: Machine | None) -> list[OffsetAndEpoch]:
    """Return the durable, complete snapshots."""
    names = machine.disk.durable_names(PARTITION) if machine is not None else []
    found = (parse_snapshot_name(name) for name in names)
    return [snapshot for snapshot in found if snapshot is not None and snapshot.offset > 0]


def _copy(cluster: Cluster, source: Machine | None, target: Machine, wanted: list[OffsetAndEpoch]) -> None:
    if source is None:
        return
    for snapshot in wanted:
        path = f"{PARTITION}/{file_name(snapshot)}"
        data = source.disk.durable_bytes(path, 0, source.disk.durable_length(path))
        if data and target.disk.put(path, data):
            target.has_copies = True
            cluster.counters["snapshots copied"] += 1
