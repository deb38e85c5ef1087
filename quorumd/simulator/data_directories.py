"""Operations on log directories: format, replace, exchange and restore.

A replica is its log directory (KIP-853): a node that restarts with an empty directory is another replica, and the log
and votes of the previous replica are lost. A quorum survives that only while enough voters keep their directories,
which `is_dispensable` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from quorumd.errors import StorageError
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.log.meta_properties import format_directory, partition_directory
from quorumd.log.quorum_state_file import Founder
from quorumd.log.snapshot_file import SnapshotWriter
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.raft.voters import majority
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.environment.directory import Directory
from quorumd.simulator.environment.entropy import SimulatedEntropy
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.voter_sets import may_be_lost

if TYPE_CHECKING:
    from quorumd.simulator.cluster import Cluster, Machine
    from quorumd.simulator.inspection.log_mirror import Batch

DATA_DIRECTORY = "/data"
MAX_REPAIR_DELAY_MS = 3000.0
WALL_MS = 1_600_000_000_000


class SetAside(NamedTuple):
    """A log directory that is not in use."""

    root: Directory
    directory_number: int
    directory_id: KafkaUuid
    recoverable_batches: list[Batch]
    """The batches that the node must find once it has this directory again."""


class KafkaFormat(NamedTuple):
    """The content of the snapshot of offset 0 that Kafka's `kafka-storage format` writes."""

    voters: VotersRecord | None
    """The initial voters, None for an observer."""
    frames: Sequence[bytes]
    """The frames of the initial records."""


def format_durably(
    machine: Machine,
    cluster_id: str | None,
    founders: Sequence[Founder] | None = None,
    bootstrap: bytes | None = None,
    by_kafka: KafkaFormat | None = None,
) -> None:
    """Run `quorumd format`, or `kafka-storage format`; its result must survive an immediate power loss."""
    format_directory(
        machine.disk,
        DATA_DIRECTORY,
        node_id=machine.node_id,
        directory_id=machine.directory_id,
        cluster_id=cluster_id,
        founders=founders,
        bootstrap=bootstrap,
    )
    for path, directory_id in machine.log_directories.items():
        format_directory(
            machine.disk,
            path,
            node_id=machine.node_id,
            directory_id=directory_id,
            cluster_id=cluster_id,
            has_metadata=False,
        )
    if by_kafka is not None:
        directory = partition_directory(DATA_DIRECTORY)
        snapshot = SnapshotWriter(
            machine.disk, directory, OffsetAndEpoch(0, 0), WALL_MS, by_kafka.voters, "format"
        )
        snapshot.write(by_kafka.frames)
        snapshot.finish()
    machine.disk.lose_power()


def healthy_voters(cluster: Cluster, without: Machine) -> int:
    """Count the other voters that still have their votes and the start of the committed log."""
    informed = most_up_to_date(cluster)
    if informed is None:
        return 0
    first = informed.mirror.batches[:1]
    return sum(
        machine is not without
        and not machine.retired
        and machine.directory_number == 0
        and not machine.disk.is_corrupted
        and machine.set_aside is None
        and machine.durable_log.holds(first) == 1
        for machine in (cluster.machines[voter] for voter in cluster.voters)
    )


def is_dispensable(cluster: Cluster, machine: Machine) -> bool:
    """Whether the log directory of a machine may be lost.

    An observer may always lose its directory. A voter may lose it only once the committed voters name its directory
    id: before that, its next directory could not be distinguished, and the voter could vote twice (hole 40 of the
    KIP-595 draft). A majority of the voters must keep their directories with the start of the committed log, so that
    none of them could take part in a first bootstrap again. Once voters have changed, this holds for every voter set
    that may be in effect.
    """
    if machine.set_aside is not None:
        return False
    if cluster.voters_changed and not cluster.options.auto_join:
        return most_up_to_date(cluster) is not None and may_be_lost(cluster, machine)
    if machine.node_id not in cluster.voters or machine.directory_number != 0:
        # With auto join, this node may be needed for a majority.
        return not cluster.options.auto_join
    informed = most_up_to_date(cluster)
    if informed is None or committed_directory(informed, machine.node_id) != machine.directory_id:
        return False
    return healthy_voters(cluster, machine) >= majority(len(cluster.voters))


def replace(cluster: Cluster, machine: Machine) -> None:
    """Replace the disk of a machine without a process; the new disk is formatted with or without the cluster id."""
    # The names of streams determine the runs of known seeds.
    random = cluster.streams.stream("new folder", machine.node_id, machine.directories_made)
    cluster.counters["disks replaced"] += 1
    cluster.counters["voters lost"] += machine.node_id in cluster.voters and machine.directory_number == 0
    machine.disk.exchange(Directory())
    _reformat(cluster, machine, random, random.choice((None, known_cluster_id(cluster))))


def set_aside(cluster: Cluster, machine: Machine, cluster_id: str | None) -> None:
    """Give the node another directory, formatted by mistake, until `restore_directory`."""
    random = cluster.streams.stream("wrong folder", machine.node_id, machine.directories_made)
    root = machine.disk.exchange(Directory())
    machine.set_aside = SetAside(
        root, machine.directory_number, machine.directory_id, machine.recoverable_batches
    )
    _reformat(cluster, machine, random, cluster_id)


def restore_directory(cluster: Cluster, machine: Machine) -> None:
    """Undo `set_aside`; the node is killed."""
    aside = machine.set_aside
    if aside is None:
        return
    cluster.kill(machine.node_id)
    machine.set_aside = None
    machine.names_itself = False
    machine.disk.exchange(aside.root)
    machine.directory_number, machine.directory_id = aside.directory_number, aside.directory_id
    machine.recoverable_batches = aside.recoverable_batches
    cluster.moved(machine)


def repair_later(cluster: Cluster, machine: Machine) -> None:
    """Schedule the repair of corrupted files: an operator restores them or, if that is safe, replaces the disk."""
    random = cluster.streams.stream("mend", machine.node_id, machine.incarnation)
    replaces = random.random() < 0.3
    delay_ms = random.random() * MAX_REPAIR_DELAY_MS
    cluster.heap.call_later(delay_ms, partial(_repair, cluster, machine, replaces), b"mend")


def _repair(cluster: Cluster, machine: Machine, replaces: bool) -> None:
    if machine.process is not None or machine.retired:
        return
    if machine.disk.is_corrupted and replaces and is_dispensable(cluster, machine):
        replace(cluster, machine)
    machine.disk.restore()
    cluster.boot(machine.node_id)


def expect_refusal(
    cluster: Cluster,
    machine: Machine,
    root: Directory,
    mistake: str,
    edit: Callable[[], object] | None = None,
    why: str = "that is not its own",
    is_watched: Callable[[str], bool] = lambda path: True,
) -> None:
    """Start the node, which is down, with files that it must refuse and leave unchanged.

    `edit` modifies the files first. Raises InvariantViolation if the node starts and does not exit at once, or if it
    changes files for which `is_watched` is true. Its own files are restored afterwards.
    """
    own = machine.disk.exchange(root)
    # The checkers must not take the wrong files for the node's own.
    after_sync, machine.disk.after_sync = machine.disk.after_sync, lambda _: None
    process = Process(f"node-{machine.node_id}", machine.node_id, machine.incarnation)
    machine.disk.mount(process)
    machine.disk.repair()
    machine.exiting = False
    if edit is not None:
        edit()
    before = machine.disk.contents()
    try:
        cluster.start_node(machine, process)
        is_refused = machine.exiting
    except StorageError:
        is_refused = True
    finally:
        process.alive = machine.exiting = False
        cluster.network.process_ended(process)
    if not is_refused:
        raise InvariantViolation(f"a node refuses a directory {why}", f"node {machine.node_id}: {mistake}")
    cluster.counters["wrong directories refused"] += 1
    after = machine.disk.contents()
    machine.disk.exchange(own)
    machine.disk.after_sync = after_sync
    watched = filter(is_watched, before.keys() | after)
    changed = sorted(path for path in watched if before.get(path, b"") != after.get(path, b""))
    if changed:
        raise InvariantViolation(
            f"a directory {why} is left alone", f"node {machine.node_id} changed {changed}"
        )


def _reformat(cluster: Cluster, machine: Machine, random: Random, cluster_id: str | None) -> None:
    machine.directories_made += 1
    machine.directory_number = machine.directories_made
    entropy = SimulatedEntropy(random)
    machine.directory_id = entropy.uuid()
    machine.log_directories = {path: entropy.uuid() for path in machine.log_directories}
    machine.disk.repair()
    format_durably(machine, cluster_id)
    machine.recoverable_batches, machine.last_voter_sets = [], ()
    cluster.moved(machine)


def most_up_to_date(cluster: Cluster) -> Machine | None:
    """Return the running machine with the highest high watermark, None if none has one."""
    found, highest = None, 0
    for machine in cluster.running():
        node = machine.node
        if node is None or machine.exiting or machine.set_aside is not None:
            continue
        if node.engine.high_watermark > highest and machine.mirror.batches:
            found, highest = machine, node.engine.high_watermark
    return found


def committed_directory(informed: Machine, voter_id: int) -> KafkaUuid | None:
    """Return the directory id of a voter in the committed voter set."""
    assert informed.node is not None
    engine = informed.node.engine
    voter = engine.voters_before(engine.high_watermark).current.by_id(voter_id)
    return voter.key.directory_id if voter is not None else None


def known_cluster_id(cluster: Cluster) -> str | None:
    informed = most_up_to_date(cluster)
    return informed.node.cluster_id if informed is not None and informed.node is not None else None
