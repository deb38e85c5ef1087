"""Log directories that are corrupted or lost, or that operators mistake for others."""

from __future__ import annotations

import json
from random import Random

from quorumd.ids import KafkaUuid
from quorumd.log.high_watermark_checkpoint import FILE_NAME as CHECKPOINT
from quorumd.log.meta_properties import load_meta_properties, partition_directory, save_meta_properties
from quorumd.log.segment import LOG_SUFFIX
from quorumd.protocol.batch_scan import headers
from quorumd.raft.voters import majority
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import (
    DATA_DIRECTORY,
    expect_refusal,
    healthy_voters,
    is_dispensable,
    replace,
    restore_directory,
    set_aside,
)

PARTITION = partition_directory(DATA_DIRECTORY)
EPOCH_BYTES = range(12, 16)
"""Position in a batch of the only field that neither the CRC nor another check covers."""
MAX_MISTAKE_MS = 5000.0


class CorruptSegment:
    """A few bits of a sealed segment that is known to be committed are corrupted: the node must detect it.

    Data that is not known to be committed (`replication-offset-checkpoint`) is not corrupted: a node cannot
    distinguish damage in it from the effects of a crash, and truncates it. A majority of the voters keeps its data.
    """

    name = "corrupt segment"

    def available(self, cluster: Cluster) -> bool:
        return bool(self._candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine, path = random.choice(self._candidates(cluster))
        data = machine.disk.durable_bytes(path, 0, machine.disk.durable_length(path))
        batch = random.choice(list(headers(data)))
        for _ in range(random.choice((1, 1, 2, 4))):
            at = random.choice([at for at in range(batch.size) if at not in EPOCH_BYTES])
            machine.disk.corrupt(path, batch.position + at, 1 + random.randrange(255))
        if random.random() < 0.5:
            cluster.kill(machine.node_id)
            cluster.restart_later(machine.node_id)

    def _candidates(self, cluster: Cluster) -> list[tuple[Machine, str]]:
        needed = majority(len(cluster.voters))
        return [
            (machine, path)
            for machine in cluster.machines.values()
            if machine.set_aside is None and not machine.disk.is_corrupted
            for path in _sealed_and_committed(machine)
            if machine.node_id not in cluster.voters or healthy_voters(cluster, machine) >= needed
        ]


class ReplacedDisk:
    """A disk is lost, and its machine restarts with an empty one."""

    name = "replaced disk"

    def available(self, cluster: Cluster) -> bool:
        return bool(_replaceable(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(_replaceable(cluster))
        cluster.lose_power(machine.node_id)
        replace(cluster, machine)
        cluster.restart_later(machine.node_id)


class WrongClusterId:
    """A node is started with the id of another cluster: in its own log directory, or in one formatted for that
    cluster."""

    name = "wrong cluster id"

    def available(self, cluster: Cluster) -> bool:
        return bool(_replaceable(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(_replaceable(cluster))
        wrong = str(KafkaUuid(random.randbytes(16)))
        cluster.kill(machine.node_id)
        if _saved_state(machine).get("clusterId") and random.random() < 0.5:

            def edit() -> None:
                meta = load_meta_properties(machine.disk, DATA_DIRECTORY)
                assert meta is not None
                save_meta_properties(machine.disk, DATA_DIRECTORY, meta._replace(cluster_id=wrong))

            expect_refusal(cluster, machine, machine.disk.copy(), "another cluster id", edit)
            cluster.restart_later(machine.node_id)
            return
        set_aside(cluster, machine, wrong)
        cluster.restart_later(machine.node_id)

        def notice() -> None:
            restore_directory(cluster, machine)
            cluster.restart_later(machine.node_id)

        cluster.heap.call_later(random.random() * MAX_MISTAKE_MS, notice, b"operator")


class SwappedDirectories:
    """Two nodes are started with each other's log directories, and then with their own."""

    name = "swapped directories"

    def available(self, cluster: Cluster) -> bool:
        return len(_with_own_directory(cluster)) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        one, other = random.sample(_with_own_directory(cluster), 2)
        for machine in (one, other):
            cluster.kill(machine.node_id)
        for machine, theirs in ((one, other), (other, one)):
            mistake = f"it has the directory of node {theirs.node_id}"
            expect_refusal(cluster, machine, theirs.disk.copy(), mistake)
        for machine in (one, other):
            cluster.restart_later(machine.node_id)


class CopiedDirectory:
    """A node is started with a copy of another node's log directory, possibly with its own id written into it."""

    name = "copied directory"

    def available(self, cluster: Cluster) -> bool:
        return len(_with_own_directory(cluster)) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine, source = random.sample(_with_own_directory(cluster), 2)
        cluster.kill(machine.node_id)
        is_known = _saved_state(source).get("brokerId") == source.node_id
        edits = is_known and random.random() < 0.5

        def edit() -> None:
            meta = load_meta_properties(machine.disk, DATA_DIRECTORY)
            assert meta is not None
            save_meta_properties(machine.disk, DATA_DIRECTORY, meta._replace(node_id=machine.node_id))

        mistake = f"it has a copy of the directory of node {source.node_id}"
        expect_refusal(cluster, machine, source.disk.copy(), mistake, edit if edits else None)
        cluster.restart_later(machine.node_id)


def _with_own_directory(cluster: Cluster) -> list[Machine]:
    return [
        machine
        for machine in cluster.machines.values()
        if machine.set_aside is None and not machine.disk.is_corrupted
    ]


def _replaceable(cluster: Cluster) -> list[Machine]:
    return [machine for machine in _with_own_directory(cluster) if is_dispensable(cluster, machine)]


def _saved_state(machine: Machine) -> dict[str, object]:
    """Return the durable quorum-state of a machine; empty if there is none."""
    data = machine.disk.durable_bytes(f"{PARTITION}/quorum-state", 0, 1 << 16)
    found: dict[str, object] = json.loads(data.partition(b"\n")[0]) if data else {}
    return found


def _sealed_and_committed(machine: Machine) -> list[str]:
    """Return the sealed segments that recovery must find intact."""
    disk = machine.disk
    checkpoint = disk.durable_bytes(f"{DATA_DIRECTORY}/{CHECKPOINT}", 0, 1000).split()
    if not checkpoint:
        return []
    names = [name for name in disk.durable_names(PARTITION) if name.endswith(LOG_SUFFIX)]
    ends = [int(name.removesuffix(LOG_SUFFIX)) for name in names[1:]]
    return [
        f"{PARTITION}/{name}" for name, end in zip(names, ends, strict=False) if end <= int(checkpoint[-1])
    ]
