"""Polls the readiness of every running node, like a monitoring system."""

from __future__ import annotations

from math import inf

from quorumd.ids import ReplicaKey
from quorumd.node.node import Node
from quorumd.node.readiness import NodeStatus, readiness, report
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.readiness import TOLERANCE, ReadyClaim, ReadyNodesServe
from quorumd.simulator.cluster import Cluster, Machine

PROBE_EVERY_MS = 40.0
REPORTS = "nodes that are not ready say so"


class ReadinessProbe:
    """Passes each claim to the checker. Only reads nodes and does not affect a run."""

    def __init__(self, cluster: Cluster, checker: ReadyNodesServe) -> None:
        self._cluster = cluster
        self._checker = checker
        self._next_ms = 0.0
        self._resumed_ms: dict[int, float] = {}
        """The end of each node's last pause of more than half a fetch timeout."""
        self._unready: set[int] = set()
        """The nodes that were not ready when last polled."""

    def look(self) -> None:
        """Check the nodes after an event. Raises InvariantViolation."""
        now_ms = self._cluster.heap.now_ms
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + PROBE_EVERY_MS
        voters = self._committed_voters()
        running = [m for m in self._cluster.running() if m.node is not None and not m.starting]
        for machine in running:
            self._observe_pause(machine)
            self._observe_leader(machine)
        for machine in running:
            if machine.node is not None and self._responds(machine):
                claim = self._claim(machine, machine.node)
                if claim is not None:
                    self._checker.claimed(claim, voters)

    def unready(self, node_ids: list[int]) -> str:
        """Describe a voter among these nodes that is not ready, "" if there is none."""
        for node_id in node_ids:
            node = self._cluster.machines[node_id].node
            if node is None:
                return f"node {node_id} is down"
            status = node.monitor.node_status()
            if node.engine.is_voter and not readiness(status).is_ready:
                return f"node {node_id} is {report(status)}"
        return ""

    def _observe_pause(self, machine: Machine) -> None:
        node, process = machine.node, machine.process
        if node is not None and process is not None:
            busy_ms = process.busy_until_ms - self._cluster.heap.now_ms
            if busy_ms > node.settings.raft.fetch_timeout_ms / 2:
                self._resumed_ms[machine.node_id] = process.busy_until_ms

    def _has_read_old_fetches(self, machine: Machine, fetch_timeout_ms: float) -> bool:
        """Whether a leader resumed within the last fetch timeout, and may count fetches that waited during its pause
        as contact."""
        resumed_ms = self._resumed_ms.get(machine.node_id, -inf)
        return self._cluster.heap.now_ms - resumed_ms <= TOLERANCE * fetch_timeout_ms

    def _observe_leader(self, machine: Machine) -> None:
        node, now_ms = machine.node, self._cluster.heap.now_ms
        if node is not None and node.engine.is_leader:
            own_ms = machine.time.offset_ms + now_ms * machine.time.rate
            ages = [voter.last_fetch_ms_ago for voter in node.engine.describe(own_ms).voters]
            self._checker.leads(machine.node_id, node.engine.epoch, ages, now_ms)

    def _responds(self, machine: Machine) -> bool:
        process = machine.process
        return (
            process is not None and not machine.exiting and process.busy_until_ms <= self._cluster.heap.now_ms
        )

    def _read_report(self, node_id: int, node_status: NodeStatus) -> None:
        """Check the report of a node that has become unready. Raises InvariantViolation."""
        if node_id not in self._unready:
            self._unready.add(node_id)
            if not report(node_status).startswith("not ready: "):
                raise InvariantViolation(REPORTS, f"node {node_id}: {report(node_status)}")

    def _claim(self, machine: Machine, node: Node) -> ReadyClaim | None:
        node_status = node.monitor.node_status()
        if not readiness(node_status).is_ready:
            self._read_report(machine.node_id, node_status)
            return None
        self._unready.discard(machine.node_id)
        cluster = self._cluster
        now_ms, leader_id = cluster.heap.now_ms, node_status.leader_id
        contact_age_ms = 0.0
        if leader_id != machine.node_id:
            leader = cluster.machines.get(leader_id)
            last_ms = -inf if leader is None else cluster.network.last_arrival_ms(leader.host, machine.host)
            contact_age_ms = now_ms - last_ms
        elif self._has_read_old_fetches(machine, node.settings.raft.fetch_timeout_ms):
            return None
        raft = node.settings.raft
        return ReadyClaim(
            ReplicaKey(machine.node_id, machine.directory_id),
            machine.incarnation,
            now_ms,
            node_status.epoch,
            leader_id,
            contact_age_ms,
            node_status.applied_offset,
            node.engine.high_watermark,
            node.settings.ready_max_lag,
            raft.fetch_timeout_ms,
            raft.fetch_max_wait_ms,
        )

    def _committed_voters(self) -> tuple[ReplicaKey, ...]:
        """Return the committed voters that the newest leader knows."""
        leaders = [m.node for m in self._cluster.running() if m.node is not None and not m.starting]
        newest = max((n.engine for n in leaders if n.engine.is_leader), key=lambda e: e.epoch, default=None)
        if newest is None or newest.high_watermark < 0:
            return ()
        return tuple(voter.key for voter in newest.voters_before(newest.high_watermark).current.voters)
