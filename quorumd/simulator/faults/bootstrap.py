"""Events that could found a second quorum, or make the first one unreachable: wiped disks, old properties, new
addresses."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.raft.voters import VoterSet, majority
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import (
    committed_directory,
    known_cluster_id,
    most_up_to_date,
    restore_directory,
    set_aside,
)
from quorumd.simulator.faults.links import block_for

MAX_BLANK_MS = 6000.0
BETWEEN_MOVES_MS = 1500.0
DOWN_MS = 300.0


class WipedDisks:
    """Some voters, possibly most, lose their disks at once and are formatted as by a service unit: without initial
    controllers, and with the old cluster id or none. They have their initial properties, except that one of them may
    name itself as the only voter. The other voters are running, down, or isolated. Finally the operator restores the
    old disks."""

    name = "wiped disks"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.voters) > 1 and not cluster.voters_changed and _all_voters_are_healthy(cluster)

    def inject(self, cluster: Cluster, random: Random) -> None:
        cluster_id = random.choice((None, known_cluster_id(cluster)))
        voters = [cluster.machines[voter] for voter in cluster.voters]
        random.shuffle(voters)
        count = 1 + random.randrange(len(voters) - 1)
        wiped, kept = voters[:count], voters[count:]
        duration_ms = MAX_BLANK_MS * random.uniform(0.3, 1.0)
        names_itself = random.random() < 0.4
        for machine in wiped:
            cluster.lose_power(machine.node_id)
            set_aside(cluster, machine, cluster_id)
            # A blank node does not start without the addresses that a moved quorum has removed.
            machine.seeds = None
        wiped[0].names_itself = names_itself
        for machine in kept:
            self._trouble(cluster, random, machine, duration_ms)
        for machine in wiped:
            cluster.restart_later(machine.node_id)
            cluster.heap.call_later(duration_ms, partial(self._find_disk, cluster, machine), b"operator")

    def _trouble(self, cluster: Cluster, random: Random, machine: Machine, duration_ms: float) -> None:
        way = random.random()
        if way < 0.35:
            cluster.kill(machine.node_id)
            delay_ms = duration_ms * random.random() * 1.5
            cluster.heap.call_later(delay_ms, partial(cluster.boot, machine.node_id), b"boot")
        elif way < 0.6:
            others = [host for host in cluster.hosts() if host != machine.host]
            ways = [way for host in others for way in ((machine.host, host), (host, machine.host))]
            block_for(cluster, ways, duration_ms * random.random())

    def _find_disk(self, cluster: Cluster, machine: Machine) -> None:
        restore_directory(cluster, machine)
        cluster.restart_later(machine.node_id)


class MovedQuorum:
    """The voters move to other addresses, one after the other. Once the voter records have the new addresses, the
    voters' properties no longer name any, and all voters restart at once. An observer that missed too many moves is
    restarted with new properties: it has no valid address of a voter, and no voter knows its address."""

    name = "moved quorum"

    def available(self, cluster: Cluster) -> bool:
        machines = cluster.machines.values()
        return _all_voters_are_healthy(cluster) and all(machine.seeds is None for machine in machines)

    def inject(self, cluster: Cluster, random: Random) -> None:
        for number, voter in enumerate(cluster.voters):
            machine = cluster.machines[voter]
            move = partial(self._move, cluster, machine)
            cluster.heap.call_later(number * BETWEEN_MOVES_MS, move, b"operator")
        wait_ms = (len(cluster.voters) + 1) * BETWEEN_MOVES_MS
        cluster.heap.call_later(wait_ms, partial(self._end, cluster), b"operator")

    def _move(self, cluster: Cluster, machine: Machine) -> None:
        if cluster.is_repaired or machine.retired or machine.set_aside is not None:
            return
        cluster.kill(machine.node_id)
        machine.port += 1
        cluster.addresses()
        cluster.heap.call_later(DOWN_MS, partial(cluster.boot, machine.node_id), b"boot")

    def _end(self, cluster: Cluster) -> None:
        for machine in cluster.machines.values():
            if machine.node_id not in cluster.voters and not _can_find_voters(cluster, machine):
                cluster.kill(machine.node_id)
                cluster.restart_later(machine.node_id)
        self._forget_seeds(cluster)

    def _forget_seeds(self, cluster: Cluster) -> None:
        """Remove the addresses from the properties of voters, once every voter has a record with the addresses of the
        others: before that, voters could not find each other."""
        voters = [cluster.machines[voter] for voter in cluster.voters]
        if cluster.is_repaired or not all(_knows_addresses(cluster, machine) for machine in voters):
            return
        cluster.counters["quorums moved"] += 1
        for machine in voters:
            machine.seeds = ()
            cluster.kill(machine.node_id)
        for machine in voters:
            cluster.restart_later(machine.node_id)


def _all_voters_are_healthy(cluster: Cluster) -> bool:
    """Whether all voters have their initial log directories, the committed voters name their directory ids, and a
    majority is running."""
    informed = most_up_to_date(cluster)
    if informed is None:
        return False
    voters = [cluster.machines[voter] for voter in cluster.voters]
    return sum(machine.process is not None for machine in voters) >= majority(len(voters)) and all(
        machine.set_aside is None
        and machine.directory_number == 0
        and not machine.disk.is_corrupted
        and not machine.retired
        and committed_directory(informed, machine.node_id) == machine.directory_id
        for machine in voters
    )


def _knows_addresses(cluster: Cluster, machine: Machine) -> bool:
    """Whether the durable log of a running node has the current address of every voter."""
    node = machine.node
    if node is None or machine.exiting or machine.set_aside is not None:
        return False
    engine, batches = node.engine, machine.mirror.batches
    durable = machine.durable_log.holds(batches)
    end_offset = batches[durable - 1].end_offset if durable else 0
    recorded = engine.voters_before(min(engine.high_watermark, end_offset)).current
    return _count_current_addresses(cluster, recorded) == len(cluster.voters)


def _can_find_voters(cluster: Cluster, machine: Machine) -> bool:
    """Whether the log of a node has the current addresses of a majority of the voters, so that it reaches at least
    one voter of any running majority. A stopped node gets new addresses at its start."""
    if machine.node is None:
        return True
    named = _count_current_addresses(cluster, machine.node.engine.voters.current)
    return named >= majority(len(cluster.voters))


def _count_current_addresses(cluster: Cluster, recorded: VoterSet) -> int:
    """Count the voters whose current address is in a voter record."""
    return sum(
        (voter := recorded.by_id(number)) is not None
        and [endpoint.port for endpoint in voter.endpoints] == [cluster.machines[number].port]
        for number in cluster.voters
    )
