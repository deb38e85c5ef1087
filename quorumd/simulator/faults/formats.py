"""Operators who run `format` on formatted directories, which must remain unchanged."""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import Final, NamedTuple

from quorumd.errors import StorageError
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.log.meta_properties import FILE_NAME as META_PROPERTIES
from quorumd.log.meta_properties import format_directory, load_meta_properties, partition_directory
from quorumd.log.partition_metadata import FILE_NAME as PARTITION_METADATA
from quorumd.log.quorum_state_file import FILE_NAME as QUORUM_STATE
from quorumd.log.quorum_state_file import Founder, QuorumStateFile
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.base import undisturbed

PARTITION = partition_directory(DATA_DIRECTORY)
OTHER_NODE: Final = 77
MAX_FORMATS: Final = 8
OTHER_TOPIC_SHARE: Final = 0.15
"""Share of the directories without meta.properties, and with the metadata of another partition."""
OTHER_TOPICS: Final = tuple(f"version: 0\ntopic_id: {each}".encode() for each in ("A" * 22, "~" * 22, "A"))


class Arguments(NamedTuple):
    """Arguments of `format`, and whether it must refuse them."""

    is_refused: bool
    node_id: int
    cluster_id: str | None = None
    founders: tuple[Founder, ...] | None = None
    ignore_formatted: bool = False


class RepeatedFormat:
    """A node is stopped, and its log directory formatted again, several times: for the same node, another node or
    another cluster, or as the founder of another quorum."""

    name = "repeated format"
    invariant = "a formatted directory keeps its content"

    def available(self, cluster: Cluster) -> bool:
        return bool(_candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(_candidates(cluster))
        cluster.kill(machine.node_id)
        for _ in range(1 + random.randrange(MAX_FORMATS)):
            self._repeat(cluster, random, machine)
        cluster.restart_later(machine.node_id)

    def _repeat(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        own = machine.disk.exchange(machine.disk.copy())
        # The checkers must not take the copy for the node's own files.
        after_sync, machine.disk.after_sync = machine.disk.after_sync, lambda _: None
        process = Process("format", machine.node_id, machine.incarnation)
        machine.disk.mount(process)
        machine.disk.repair()
        try:
            self._format(random, machine)
        finally:
            process.alive = False
            machine.disk.exchange(own)
            machine.disk.after_sync = after_sync
        cluster.counters["repeated formats"] += 1

    def _format(self, random: Random, machine: Machine) -> None:
        disk = machine.disk
        arguments = _draw_arguments(random, machine)
        if random.random() < OTHER_TOPIC_SHARE:
            arguments = Arguments(True, machine.node_id)
            disk.remove(f"{DATA_DIRECTORY}/{META_PROPERTIES}")
            _rewrite(disk, f"{PARTITION}/{PARTITION_METADATA}", random.choice(OTHER_TOPICS))
        elif arguments.is_refused and arguments.founders and _has_log(disk) and random.random() < 0.3:
            # Even without the other files, the records show that the directory belongs to a quorum.
            disk.remove(f"{PARTITION}/{QUORUM_STATE}")
        before = disk.contents()
        try:
            format_directory(
                disk,
                DATA_DIRECTORY,
                node_id=arguments.node_id,
                directory_id=KafkaUuid(random.randbytes(16)),
                cluster_id=arguments.cluster_id,
                ignore_formatted=arguments.ignore_formatted,
                founders=arguments.founders,
            )
        except StorageError as error:
            if not arguments.is_refused:
                raise InvariantViolation(self.invariant, f"{arguments} is refused: {error}") from error
        else:
            if arguments.is_refused:
                raise InvariantViolation(self.invariant, f"{arguments} is accepted")
        if disk.contents() != before:
            raise InvariantViolation(self.invariant, f"{arguments} changes node {machine.node_id}")


def _rewrite(disk: SimulatedDisk, path: str, content: bytes) -> None:
    with closing(disk.open(path, create=True)) as file:
        file.truncate(0)
        file.write_at(0, content)


def _draw_arguments(random: Random, machine: Machine) -> Arguments:
    node_id, other = machine.node_id, str(KafkaUuid(random.randbytes(16)))
    meta = load_meta_properties(machine.disk, DATA_DIRECTORY)
    state = QuorumStateFile(machine.disk, PARTITION).load()
    assert meta is not None
    found = [
        Arguments(False, node_id),
        Arguments(True, OTHER_NODE),
        Arguments(False, OTHER_NODE, other, ignore_formatted=True),
    ]
    if meta.cluster_id is not None:
        found += [Arguments(False, node_id, meta.cluster_id), Arguments(True, node_id, other)]
    stranger = Founder(node_id, KafkaUuid(random.randbytes(16)), machine.host, machine.port)
    found.append(Arguments(True, node_id, None, (stranger,)))
    if state is not None and state.leader_epoch > 0 and _has_log(machine.disk):
        founder = Founder(node_id, random.choice((ZERO_UUID, meta.directory_id)), "10.0.0.99", 1)
        found += [Arguments(True, node_id, None, (founder, stranger._replace(voter_id=OTHER_NODE)))] * 2
    if state is not None and state.founders is not None:
        found.append(Arguments(False, node_id, None, state.founders))
    return random.choice(found)


def _has_log(disk: SimulatedDisk) -> bool:
    return any(
        path.startswith(PARTITION) and path.endswith(".log") and any(data)
        for path, data in disk.contents().items()
    )


def _candidates(cluster: Cluster) -> list[Machine]:
    return [
        machine for machine in undisturbed(cluster) if QUORUM_STATE in machine.disk.durable_names(PARTITION)
    ]
