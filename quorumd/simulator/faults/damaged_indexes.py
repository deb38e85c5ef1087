"""Damage to files that a node can do without: it must start, and lose nothing."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Final

from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.faults.base import undisturbed

PARTITION = partition_directory(DATA_DIRECTORY)
INDEX_SUFFIXES: Final = (".index", ".timeindex")
FORMATTED: Final = file_name(OffsetAndEpoch(0, 0))


class DamagedIndexes:
    """The index files of a stopped node are cut, emptied or removed, or have entries out of range. The node must
    rebuild them. So is the snapshot of offset 0 that `kafka-storage` leaves in the directory, once the log has
    records."""

    name = "damaged indexes"

    def available(self, cluster: Cluster) -> bool:
        return bool(undisturbed(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(undisturbed(cluster))
        has_committed = _has_committed(machine)
        cluster.kill(machine.node_id)
        names = machine.disk.list_directory(PARTITION)
        ignored = (*INDEX_SUFFIXES, FORMATTED) if has_committed else INDEX_SUFFIXES
        for name in names:
            if name.endswith(ignored) and random.random() < 0.7:
                cluster.counters["damaged index files"] += 1
                random.choice(_DAMAGES)(machine, f"{PARTITION}/{name}", random)
        cluster.restart_later(machine.node_id)


def _has_committed(machine: Machine) -> bool:
    """Whether the first batch of the log is committed and durable, so that the log is never empty again."""
    first = machine.mirror.batches[:1]
    node = machine.node
    committed = node.engine.high_watermark if node is not None else 0
    return bool(first) and committed >= first[0].end_offset and machine.durable_log.holds(first) == 1


def _cut(machine: Machine, path: str, random: Random) -> None:
    file = machine.disk.edit(path)
    file.truncate(random.randrange(len(file.content) + 1))


def _emptied(machine: Machine, path: str, random: Random) -> None:
    machine.disk.edit(path).truncate(0)


def _removed(machine: Machine, path: str, random: Random) -> None:
    # A failure of the disk that another fault has planned may strike here: then the file stays.
    with suppress(OSError):
        machine.disk.remove(path)


def _out_of_range(machine: Machine, path: str, random: Random) -> None:
    machine.disk.edit(path).write(0, b"\x7f\xff\xff\xff" * random.choice((2, 3)))


_DAMAGES: Final = (_cut, _emptied, _removed, _out_of_range)
