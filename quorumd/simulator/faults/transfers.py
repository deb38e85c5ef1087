"""Faults in the middle of the transfer of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, ENOSPC
from functools import partial
from random import Random
from typing import Final

from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import PART, SUFFIX
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY, is_dispensable, replace
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES
from quorumd.simulator.faults.links import block_for
from quorumd.simulator.faults.processes import PausedProcess

PARTITION = partition_directory(DATA_DIRECTORY)
REPLACED_DISK: Final = "replaced disk"
LOOK_MS: Final = 1.0
MAX_LOOKS: Final = 1500
FULL_MS: Final = 500.0
BLOCKED_MS: Final = 800.0
MAX_CALLS: Final = 12
"""Number of calls within which a snapshot is put in place and the log replaced."""
MAX_WAIT_MS: Final = 20.0
"""The longest time for which a transfer runs before it is disturbed."""
MAX_OPENS: Final = (2, 10, 40)
"""The largest numbers of times that a part is opened between two interruptions."""
MAX_FAILED_CHANGE: Final = 3
_Disturbance = Callable[[Cluster, Random, Machine], None]


class DisturbedTransfer:
    """The next transfer of a snapshot is disturbed: the leader ends or cannot read, the stored part is damaged or
    cut, the disk is full or fails to sync, or the link breaks. In seeds with replaced disks, a new disk causes such a
    transfer."""

    name = "disturbed transfer"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.running()) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        if REPLACED_DISK in cluster.options.faults and random.random() < 0.7:
            _replace_one(cluster, random, _dispensable(cluster))
        self._look(cluster, random, MAX_LOOKS)

    def _look(self, cluster: Cluster, random: Random, looks: int) -> None:
        if cluster.is_repaired or not looks:
            return
        for machine in cluster.running():
            if machine.node is not None and not machine.exiting and _parts(machine):
                disturb = partial(self._disturb, cluster, random, machine)
                cluster.heap.call_later(random.random() ** 2 * MAX_WAIT_MS, disturb, b"transfer")
                return
        cluster.heap.call_later(LOOK_MS, partial(self._look, cluster, random, looks - 1), b"transfer")

    def _disturb(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        if cluster.is_repaired or machine.node is None or machine.exiting or not _parts(machine):
            return
        leader = cluster.machines.get(machine.node.engine.leader_id)
        disturbance = random.choice(
            _ON_FOLLOWER if leader is None else (*_ON_FOLLOWER, *_ON_LEADER, *_ON_LEADER)
        )
        cluster.counters[f"transfers: {disturbance.__name__.strip('_')}"] += 1
        disturbance(cluster, random, machine if disturbance in _ON_FOLLOWER or leader is None else leader)


class InterruptedInstallation:
    """Power fails, or a change of a file, after each node has fetched its next snapshot and before its log starts at
    the end of the snapshot, which is then ahead of the log at the next start."""

    name = "interrupted installation"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.running()) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        _replace_one(cluster, random, _replaceable(cluster))
        for machine in cluster.machines.values():
            machine.disk.before_rename(SUFFIX + PART, partial(self._interrupt, cluster, random, machine))

    def _interrupt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        cluster.counters["installations interrupted"] += 1
        calls = 1 + random.randrange(MAX_CALLS)
        if random.random() < 0.8:
            machine.disk.lose_power_within(calls)
        else:
            machine.disk.fail_change(calls)


class InterruptedTransfer:
    """From now on, some of the chunks of snapshots that nodes store cannot be written or synced, or are damaged, or
    the leader ends, pauses, or is cut off before it receives the request for the following chunk."""

    name = "interrupted transfer"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.running()) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        _replace_one(cluster, random, _replaceable(cluster))
        for machine in cluster.machines.values():
            if not machine.disk.awaits_open(SUFFIX + PART):
                self._await(cluster, random, machine)

    def _await(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        opens = 1 + random.randrange(random.choice(MAX_OPENS))
        machine.disk.before_open(SUFFIX + PART, partial(self._interrupt, cluster, random, machine), opens)

    def _interrupt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        self._await(cluster, random, machine)
        node = machine.node
        leader = cluster.machines.get(node.engine.leader_id) if node is not None else None
        if leader is None or leader is machine or leader.process is None or random.random() < 0.5:
            interruption, victim = random.choice(_OF_STORED_BYTES), machine
            interruption(cluster, random, victim)
        else:
            interruption, victim = random.choice(_OF_LEADERS), leader
            # The follower is in the middle of a disk call.
            strike = partial(self._strike, cluster, random, victim, interruption, victim.incarnation)
            cluster.heap.call_later(0.0, strike, b"transfer")
        cluster.counters[f"transfers interrupted: {interruption.__name__.strip('_')}"] += 1

    def _strike(
        self,
        cluster: Cluster,
        random: Random,
        leader: Machine,
        interruption: _Disturbance,
        incarnation: int,
    ) -> None:
        if leader.process is not None and leader.incarnation == incarnation and not cluster.is_repaired:
            interruption(cluster, random, leader)


def _replaceable(cluster: Cluster) -> list[Machine]:
    """Return the running machines whose disks may be replaced now: in seeds without replaced disks, observers, unless
    an operator can make them voters."""
    found = _dispensable(cluster)
    if REPLACED_DISK in cluster.options.faults:
        return found
    return [] if cluster.voters_changed else [each for each in found if each.node_id not in cluster.voters]


def _dispensable(cluster: Cluster) -> list[Machine]:
    """Return the running machines whose disks may be lost now."""
    found = [machine for machine in cluster.running() if is_dispensable(cluster, machine)]
    return [machine for machine in found if not machine.disk.is_corrupted]


def _replace_one(cluster: Cluster, random: Random, found: list[Machine]) -> None:
    """Replace a disk: the node then fetches a snapshot if there is one."""
    if found:
        machine = random.choice(found)
        cluster.lose_power(machine.node_id)
        replace(cluster, machine)
        cluster.restart_later(machine.node_id)


def _parts(machine: Machine) -> list[str]:
    """Return the paths of partly fetched snapshots."""
    names = machine.disk.list_directory(PARTITION) if machine.disk.has_power else []
    return [f"{PARTITION}/{name}" for name in names if name.endswith(SUFFIX + PART)]


def _damaged_part(cluster: Cluster, random: Random, machine: Machine) -> None:
    file = machine.disk.edit(random.choice(_parts(machine)))
    if file.content:
        file.write(random.randrange(len(file.content)), random.randbytes(1))


def _lost_bytes(cluster: Cluster, random: Random, machine: Machine) -> None:
    file = machine.disk.edit(random.choice(_parts(machine)))
    file.truncate(random.randrange(len(file.content) + 1))


def _full_disk(cluster: Cluster, random: Random, machine: Machine) -> None:
    machine.disk.capacity = machine.disk.used_bytes()

    def free() -> None:
        machine.disk.capacity = DEFAULT_CAPACITY_BYTES

    cluster.heap.call_later(random.random() * FULL_MS, free, b"room")


def _failed_sync(cluster: Cluster, random: Random, machine: Machine) -> None:
    machine.disk.fail_sync(1)


def _failed_directory_sync(cluster: Cluster, random: Random, machine: Machine) -> None:
    machine.disk.fail_directory_sync(1)


def _restart(cluster: Cluster, random: Random, machine: Machine) -> None:
    cluster.kill(machine.node_id)
    cluster.restart_later(machine.node_id)


def _blocked(cluster: Cluster, random: Random, machine: Machine) -> None:
    others = [host for host in cluster.hosts() if host != machine.host]
    ways = [way for host in others for way in ((machine.host, host), (host, machine.host))]
    block_for(cluster, ways, random.random() * BLOCKED_MS)


def _failed_reads(cluster: Cluster, random: Random, machine: Machine) -> None:
    machine.disk.fail_reads(1, random.choice((1, 2, 4)))


_ON_FOLLOWER: tuple[_Disturbance, ...] = (
    _damaged_part,
    _lost_bytes,
    _full_disk,
    _failed_sync,
    _failed_directory_sync,
)
_ON_LEADER: tuple[_Disturbance, ...] = (_restart, _blocked, _failed_reads)


def _failed_change(cluster: Cluster, random: Random, machine: Machine) -> None:
    """Fail the creation, the truncation or the write of the part, with an error of the device or a quota."""
    machine.disk.fail_change(1 + random.randrange(MAX_FAILED_CHANGE), random.choice((EIO, ENOSPC)))


def _cut_part(cluster: Cluster, random: Random, machine: Machine) -> None:
    if _parts(machine):
        _lost_bytes(cluster, random, machine)


def _changed_part(cluster: Cluster, random: Random, machine: Machine) -> None:
    if _parts(machine):
        _damaged_part(cluster, random, machine)


def _unreadable_part(cluster: Cluster, random: Random, machine: Machine) -> None:
    machine.disk.fail_reads(1, random.choice((1, 2)))


def _shut_down(cluster: Cluster, random: Random, machine: Machine) -> None:
    cluster.shut_down(machine.node_id)


def _paused(cluster: Cluster, random: Random, machine: Machine) -> None:
    PausedProcess().hurt(cluster, random, machine)


def _broken_connections(cluster: Cluster, random: Random, machine: Machine) -> None:
    address = f"{machine.host}:{machine.port}"
    for side in [side for side in cluster.network.links if side.peer == address]:
        cluster.network.break_link(side)


_OF_STORED_BYTES: tuple[_Disturbance, ...] = (
    _failed_change, _cut_part, _changed_part, _unreadable_part, _failed_sync, _failed_directory_sync
)  # fmt: skip
_OF_LEADERS: tuple[_Disturbance, ...] = (_restart, _shut_down, _blocked, _paused, _broken_connections)
INTERRUPTIONS = (*_OF_STORED_BYTES, *_OF_LEADERS)
