"""Bounds the time that a majority without faults spends without a leader, while others still have faults."""

from __future__ import annotations

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.disk import DEFAULT_CAPACITY_BYTES
from quorumd.simulator.liveness.stable_leadership import REPLAYS_WITHOUT_LEADER, TIMEOUTS_WITHOUT_LEADER
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.voter_sets import have_majorities_among

CHECK_INTERVAL_MS = 50.0
SLOWEST = 4.0
"""The slowest operation takes at most an election timeout divided by this."""

Healthy = tuple[tuple[int, int], ...]
"""Nodes by id and incarnation."""


class LeaderProbe:
    """A majority of voters that run without a pause and reach each other elects a leader within the same bound as a
    cluster without faults (`StableLeadership`), whatever faults the other nodes have. Not checked with links or disks
    that are often as slow as an election timeout, or once voters may have changed. Only reads nodes."""

    invariant = "a majority without faults elects a leader"

    def __init__(self, cluster: Cluster) -> None:
        self.elections = 0
        """The number of times that such a majority elected a leader after it was without one for a while."""
        self._cluster = cluster
        self._is_checked = _is_prompt(cluster.options)
        self._next_check_ms = 0.0
        self._healthy: Healthy = ()
        self._blocked: list[tuple[str, str]] = []
        self._since_ms = 0.0
        """The time since which the same nodes have been healthy and without a leader."""

    def look(self) -> None:
        """Check after an event. Raises InvariantViolation."""
        cluster = self._cluster
        now = cluster.heap.now_ms
        if now < self._next_check_ms or not self._is_checked:
            return
        self._next_check_ms = now + CHECK_INTERVAL_MS
        group = self._largest_group()
        healthy = tuple((machine.node_id, machine.incarnation) for machine in group)
        blocked = cluster.network.blocked_paths()
        is_same = (healthy, blocked) == (self._healthy, self._blocked) and not cluster.voters_changed
        self._healthy, self._blocked = healthy, blocked
        has_leader = any(self._has_leader(machine, now) for machine in group)
        if not is_same or has_leader or not have_majorities_among(cluster, [m.node_id for m in group]):
            self.elections += is_same and has_leader and now - self._since_ms > 2 * CHECK_INTERVAL_MS
            self._since_ms = now
        elif now - self._since_ms > self._limit_ms(group):
            raise InvariantViolation(
                self.invariant,
                f"nodes {[m.node_id for m in group]} of the voters {cluster.voters} have run and reached each other "
                f"for {now - self._since_ms:.0f} ms without a leader",
            )

    def _limit_ms(self, group: list[Machine]) -> float:
        options = self._cluster.options
        records = max(m.mirror.batches[-1].end_offset if m.mirror.batches else 0 for m in group)
        timeouts_ms = options.election_timeout_ms + options.fetch_timeout_ms
        replay_ms = records * options.record_ms * options.slowness
        return TIMEOUTS_WITHOUT_LEADER * timeouts_ms + REPLAYS_WITHOUT_LEADER * replay_ms

    def _largest_group(self) -> list[Machine]:
        """Return voters that run and reach each other. The voters with the most blocked paths are left out first,
        until no path between the others is blocked."""
        cluster = self._cluster
        group = [cluster.machines[n] for n in cluster.voters if self._is_awake(cluster.machines[n])]
        blocked = [set(path) for path in cluster.network.blocked_paths()]
        while True:
            hosts = {machine.host for machine in group}
            inside = [path for path in blocked if path <= hosts]
            if not inside:
                return group
            counts = {machine.host: sum(machine.host in path for path in inside) for machine in group}
            group.remove(max(group, key=lambda machine: counts[machine.host]))

    def _is_awake(self, machine: Machine) -> bool:
        process, disk, now = machine.process, machine.disk, self._cluster.heap.now_ms
        if process is None or machine.node is None or machine.starting or machine.exiting:
            return False
        is_running = not process.callback_ms and process.busy_until_ms <= now
        return is_running and disk.busy_until_ms <= now and disk.capacity == DEFAULT_CAPACITY_BYTES

    def _has_leader(self, machine: Machine, now: float) -> bool:
        assert machine.node is not None
        engine = machine.node.engine
        own_ms = machine.time.offset_ms + now * machine.time.rate
        return engine.is_leader or engine.contact_ms(own_ms) < machine.node.settings.raft.fetch_timeout_ms


def _is_prompt(options: SimulationOptions) -> bool:
    """Whether messages and disk operations are usually much faster than an election timeout."""
    slow = [options.links.slow_ms] * (options.links.slow_probability > 0)
    slow += [options.disk.slow_ms] * (options.disk.slow_probability > 0)
    usual_ms = options.links.latency_ms[1] + options.disk.usual_ms[1]
    return SLOWEST * max([usual_ms, *slow]) < options.election_timeout_ms
