"""Network faults have their effects."""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from random import Random

from quorumd.simulator.cluster import Cluster
from quorumd.simulator.faults.links import DelayedConnection, Replay, ReplayedConnection, RingPartition
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_machines_in_a_ring_reach_two_neighbours_or_only_the_next() -> None:
    reached_by_one = set()
    for seed in range(20):
        cluster = make_cluster(voters=5)
        RingPartition().inject(cluster, Random(seed))
        hosts = [machine.host for machine in cluster.machines.values()]
        open_ways = [way for way in permutations(hosts, 2) if cluster.network.is_reachable(*way)]
        counts = {sum(near == host for near, _ in open_ways) for host in hosts}
        assert len(counts) == 1
        assert {sum(far == host for _, far in open_ways) for host in hosts} == counts
        reached_by_one |= counts
        run(cluster, 8000.0)
        assert all(cluster.network.is_reachable(*way) for way in permutations(hosts, 2))
    assert reached_by_one == {1, 2}


def test_ring_needs_four_machines() -> None:
    assert not RingPartition().available(make_cluster(voters=3))
    assert RingPartition().available(make_cluster(voters=3, observers=1))


def test_delay_of_a_connection_applies_in_both_directions_until_it_closes() -> None:
    cluster = make_cluster(voters=2)
    elect(cluster)
    DelayedConnection().inject(cluster, Random(3))
    (side,) = [side for side in cluster.network.links if side.stream.delay_ms]
    delay_ms = side.stream.delay_ms
    assert side.far.stream.delay_ms == delay_ms > 1.0
    arrived: list[float] = []
    side.far.connection = Listening(lambda: arrived.append(cluster.heap.now_ms))
    sent = cluster.heap.now_ms
    side.write(b"x")
    run(cluster, delay_ms + 200.0, lambda: bool(arrived))
    assert arrived[0] >= sent + delay_ms
    cluster.repair()
    assert all(side.stream.delay_ms == 0.0 for side in cluster.network.sides())


def test_replayed_requests_arrive_again_over_another_connection() -> None:
    delays = []
    for seed in range(8):
        cluster = make_cluster(voters=3)
        elect(cluster)
        begun = cluster.heap.now_ms
        ReplayedConnection().inject(cluster, Random(seed))
        run(cluster, 8000.0, partial(is_replaying, cluster))
        delays.append(cluster.heap.now_ms - begun)
    assert min(delays) < 500.0 < max(delays) < 8000.0


def is_replaying(cluster: Cluster) -> bool:
    return any(isinstance(side.connection, Replay) for side in cluster.network.links)


class Listening:
    """A connection that records times of arrivals."""

    def __init__(self, came: Callable[[], None]) -> None:
        self._came = came

    def connected(self, transport: object) -> None: ...

    def received(self, data: bytes) -> None:
        self._came()

    def closed(self, reason: str, refused: bool) -> None: ...
