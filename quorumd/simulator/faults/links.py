"""Network faults: partitions, and connections that break, lag or replay requests."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.ports import Transport
from quorumd.protocol.apis import ApiKey
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.stream import Side


class Partition:
    """Two groups of machines cannot reach each other."""

    name = "partition"
    one_way = False

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.hosts()) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        hosts = cluster.hosts()
        random.shuffle(hosts)
        cut = random.randrange(1, len(hosts))
        ways = [(near, far) for near in hosts[:cut] for far in hosts[cut:]]
        if not self.one_way:
            ways += [(far, near) for near, far in ways]
        block_for_a_while(cluster, random, ways)


class OneWayPartition(Partition):
    """One group cannot reach the other, but receives its data."""

    name = "one-way partition"
    one_way = True


class RingPartition:
    """The machines form a ring, and each reaches only its two neighbours, or only the next one."""

    name = "ring partition"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.machines) > 3

    def inject(self, cluster: Cluster, random: Random) -> None:
        ring = [machine.host for machine in cluster.machines.values()]
        random.shuffle(ring)
        last = len(ring) - 1
        reached = (1,) if random.random() < 0.2 else (1, last)
        ways = [
            (ring[near], ring[far])
            for near in range(len(ring))
            for far in range(len(ring))
            if near != far and (far - near) % len(ring) not in reached
        ]
        block_for_a_while(cluster, random, ways)


class IsolatedLeader:
    """The leader and the other nodes cannot reach each other; clients still reach it."""

    name = "isolated leader"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.machines) > 1 and bool(self._leaders(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        leader = random.choice(self._leaders(cluster))
        others = [machine.host for machine in cluster.machines.values() if machine is not leader]
        ways = [(leader.host, other) for other in others] + [(other, leader.host) for other in others]
        block_for_a_while(cluster, random, ways)

    def _leaders(self, cluster: Cluster) -> list[Machine]:
        return [
            machine
            for machine in cluster.running()
            if machine.node is not None and not machine.exiting and machine.node.engine.is_leader
        ]


class CloggedLink:
    """The path from one machine to another is blocked, often briefly."""

    name = "clogged link"

    def available(self, cluster: Cluster) -> bool:
        return len(cluster.hosts()) > 1

    def inject(self, cluster: Cluster, random: Random) -> None:
        near, far = random.sample(cluster.hosts(), 2)
        block_for_a_while(cluster, random, [(near, far)], longest_ms=1500.0)


class BrokenLink:
    """A connection is reset."""

    name = "broken link"

    def available(self, cluster: Cluster) -> bool:
        return bool(cluster.network.links)

    def inject(self, cluster: Cluster, random: Random) -> None:
        cluster.network.break_link(random.choice(list(cluster.network.links)))


class DelayedConnection:
    """One connection between nodes has a high latency from now on."""

    name = "delayed connection"
    delays_ms = (50.0, 500.0, 3000.0)

    def available(self, cluster: Cluster) -> bool:
        return bool(self._candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        side = random.choice(self._candidates(cluster))
        delay_ms = random.random() * random.choice(self.delays_ms)
        side.stream.delay_ms = delay_ms
        side.far.stream.delay_ms = delay_ms

    def is_candidate(self, side: Side) -> bool:
        """Whether the fault may affect this connection, which a node has opened."""
        del side
        return True

    def _candidates(self, cluster: Cluster) -> list[Side]:
        hosts = frozenset(cluster.hosts())
        return [side for side in cluster.network.links if side.host in hosts and self.is_candidate(side)]


class ReplayedConnection:
    """Requests from one node to another arrive again later, over a separate connection.

    Only requests of the quorum, gossip and fetches are replayed: TCP itself does not duplicate data, and quorumd does
    not guarantee to hide a client's write that is forwarded twice.
    """

    name = "replayed connection"
    replayed = frozenset(
        {
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.FETCH,
            ApiKey.FETCH_QUORUM_RECORDS,
            ApiKey.DISCOVER_BROKERS,
        }
    )

    def available(self, cluster: Cluster) -> bool:
        return bool(self._candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        side, frames = random.choice(self._candidates(cluster))
        first = random.randrange(len(frames))
        replay = Replay(frames[first : first + 1 + random.randrange(8)])
        host, port = side.peer.rsplit(":", 1)
        delay_ms = random.random() * random.choice((5.0, 500.0, 5000.0))
        connect = partial(cluster.network.connect, side.host, None, (host, int(port)), replay)
        cluster.heap.call_later(delay_ms, connect, b"replay")

    def _candidates(self, cluster: Cluster) -> list[tuple[Side, list[bytes]]]:
        hosts = frozenset(cluster.hosts())
        found = []
        for side in cluster.network.links:
            if side.host in hosts:
                frames = [data for data in side.remembered if self._is_replayable(data)]
                if frames:
                    found.append((side, frames))
        return found

    def _is_replayable(self, data: bytes) -> bool:
        is_one_frame = len(data) > 6 and int.from_bytes(data[:4]) == len(data) - 4
        return is_one_frame and int.from_bytes(data[4:6]) in self.replayed


class Replay:
    """The sending end of a replayed connection; responses are ignored."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames

    def connected(self, transport: Transport) -> None:
        for frame in self._frames:
            transport.write(frame)

    def received(self, data: bytes) -> None:
        return None

    def closed(self, reason: str, refused: bool) -> None:
        return None


def block_for_a_while(
    cluster: Cluster, random: Random, ways: list[tuple[str, str]], longest_ms: float = 8000.0
) -> None:
    """Block these paths, and unblock them after a random time."""
    block_for(cluster, ways, random.random() ** 2 * longest_ms)


def block_for(cluster: Cluster, ways: list[tuple[str, str]], duration_ms: float) -> None:
    """Block these paths for `duration_ms`."""
    network = cluster.network
    for way in ways:
        network.block(*way)

    def open_again() -> None:
        for way in ways:
            network.unblock(*way)

    cluster.heap.call_later(duration_ms, open_again, b"unblock")
