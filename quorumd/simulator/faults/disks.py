"""Slow, full, failing and unreadable disks."""

from __future__ import annotations

from errno import EIO, ENOSPC
from functools import partial
from random import Random
from typing import Final

from quorumd.log.segment import LOG_SUFFIX
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES
from quorumd.simulator.faults.base import RunningNodeFault

MAX_CHANGES_OF_A_ROLL: Final = 5


class DiskStall(RunningNodeFault):
    """The next operations of a disk are slow."""

    name = "disk stall"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.disk.stall(random.random() * random.choice((200.0, 2000.0, 10_000.0)))


class DiskFull(RunningNodeFault):
    """A disk has little or no free space for a while."""

    name = "disk full"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        disk = machine.disk
        disk.capacity = disk.used_bytes() + random.choice((0, 300, 5000))
        cluster.heap.call_later(random.random() * 5000.0, partial(self._free_space, machine), b"room")

    def _free_space(self, machine: Machine) -> None:
        machine.disk.capacity = DEFAULT_CAPACITY_BYTES


class FailedDirectorySync(RunningNodeFault):
    """One of the next syncs of a directory fails: names of new and renamed files may be lost."""

    name = "failed directory sync"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.disk.fail_directory_sync(1 + random.randrange(4))


class FailedSync(RunningNodeFault):
    """One of the next syncs of a file fails, and its unwritten data is lost. The device reports an error, or a file
    system that allocates blocks late has none left."""

    name = "failed sync"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.disk.fail_sync(1 + random.randrange(5), random.choice((EIO, EIO, ENOSPC)))


class FailedRead(RunningNodeFault):
    """Some of the next reads of files fail, sometimes in a new process, which recovers its log."""

    name = "failed read"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.disk.fail_reads(1 + random.randrange(random.choice((2, 6, 40))), random.choice((1, 1, 3, 20)))
        if random.random() < 0.3:
            cluster.kill(machine.node_id)
            cluster.restart_later(machine.node_id)


class FailedSegment(RunningNodeFault):
    """Some changes of files fail when the next segment file is opened: its creation, the end of the previous segment,
    or its indexes. Sometimes the clean-up fails too."""

    name = "failed segment"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.disk.before_open(LOG_SUFFIX, partial(self._fail, cluster, random, machine))

    def _fail(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        cluster.counters["segments failed"] += 1
        changes, count = 1 + random.randrange(MAX_CHANGES_OF_A_ROLL), random.choice((1, 1, 2, 3))
        machine.disk.fail_change(changes, random.choice((EIO, ENOSPC)), count)


class FailedWrite(RunningNodeFault):
    """One of the next changes of files fails, sometimes in a new process: a write, creation, truncation, rename or
    removal. The device reports an error, or a quota is exceeded for a moment."""

    name = "failed write"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.disk.fail_change(
            1 + random.randrange(random.choice((2, 10, 40))), random.choice((EIO, ENOSPC))
        )
        if random.random() < 0.3:
            cluster.kill(machine.node_id)
            cluster.restart_later(machine.node_id)
