"""Simulated clusters without clients, checkers and random faults, for tests that inject faults."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from quorumd.ids import KafkaUuid, ReplicaKey
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.disk import PowerLost
from quorumd.simulator.environment.entropy import Streams
from quorumd.simulator.environment.event_heap import EventHeap
from quorumd.simulator.inspection.log_mirror import Batch
from quorumd.simulator.options import SimulationOptions


class NullWatcher:
    """A watcher that ignores every event."""

    def stopped(self, node_id: int, kept: list[Batch]) -> None: ...

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None: ...

    def voter_change_requested(self, replica: ReplicaKey, is_added: bool) -> Callable[[], None]:
        return lambda: None


def make_cluster(voters: int = 3, observers: int = 0, seed: int = 1, **more: object) -> Cluster:
    """Create a cluster, and boot all machines at virtual time 0."""
    options = SimulationOptions(voters=voters, observers=observers, **more)  # type: ignore[arg-type]  # mixed values
    cluster = Cluster(EventHeap(), Streams(seed), options, NullWatcher())
    for node_id in cluster.machines:
        cluster.boot(node_id)
    return cluster


def run(cluster: Cluster, duration_ms: float, until: Callable[[], bool] = lambda: False) -> None:
    """Advance virtual time by `duration_ms`, or until a condition holds."""
    end = cluster.heap.now_ms + duration_ms
    is_over = False
    while not is_over and not until():
        with suppress(PowerLost):
            is_over = not cluster.heap.step(end)
        for machine in cluster.running():
            if not machine.disk.has_power:
                cluster.lost_power(machine)
    for machine in cluster.running():
        if machine.node is not None and not machine.exiting:
            machine.mirror.refresh(machine.node.log.read)  # as the inspector does


def leader_of(cluster: Cluster) -> Machine | None:
    """Return the leader of the highest epoch, None without one."""
    leaders = [
        machine
        for machine in cluster.running()
        if machine.node is not None and not machine.exiting and machine.node.engine.is_leader
    ]
    return max(leaders, key=lambda machine: machine.node.engine.epoch if machine.node else 0, default=None)


def elect(cluster: Cluster) -> Machine:
    """Run until a leader has committed, and return it."""
    run(
        cluster,
        10_000.0,
        lambda: (
            (leader := leader_of(cluster)) is not None
            and leader.node is not None
            and leader.node.engine.high_watermark > 0
        ),
    )
    leader = leader_of(cluster)
    assert leader is not None
    return leader
