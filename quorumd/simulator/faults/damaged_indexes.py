"""Damage to files that a node can do without: it must start, and lose nothing."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Final

from quorumd.log.meta_properties import partition_directory
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.faults.base import undisturbed

PARTITION = partition_directory(DATA_DIRECTORY)
INDEX_SUFFIXES: Final = (".index", ".timeindex")


class DamagedIndexes:
    """The index files of a stopped node are cut, emptied or removed, or have entries out of range. The node must
    rebuild them."""

    name = "damaged indexes"

    def available(self, cluster: Cluster) -> bool:
        return bool(undisturbed(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(undisturbed(cluster))
        cluster.kill(machine.node_id)
        names = machine.disk.list_directory(PARTITION)
        for name in names:
            if name.endswith(INDEX_SUFFIXES) and random.random() < 0.7:
                cluster.counters["damaged index files"] += 1
                random.choice(_DAMAGES)(machine, f"{PARTITION}/{name}", random)
        cluster.restart_later(machine.node_id)


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
