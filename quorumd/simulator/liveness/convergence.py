"""Conditions that a recovered cluster meets quickly. Each has its own time limit: the end of the liveness phase would
be too late to detect unnecessary timeouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from quorumd.errors import ErrorCode
from quorumd.log.high_watermark_checkpoint import FILE_NAME
from quorumd.protocol.wire import Message
from quorumd.raft.roles import Role
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.faults.voters import request_voters
from quorumd.simulator.workload.request_connection import RequestConnection

CHECKPOINT = f"{DATA_DIRECTORY}/{FILE_NAME}"
VOTER_CHANGE_TIMEOUT_MS = 15_000.0
"""Each added or removed voter may wait for a long poll (half a second)."""
IDLE_RECORDS = 4
MAX_COMMIT_MS = 1000.0
CHECK_INTERVAL_MS = 5.0
RETRY_INTERVAL_MS = 200.0
GRACE_MS = 100.0
"""Allowance for messages and flushes without faults."""


def sealed_segments(cluster: Cluster) -> dict[tuple[int, int], int]:
    """Return the end of the sealed segments of each running process, by node and incarnation. A process whose disk
    has not written them yet is left out."""
    return {
        (machine.node_id, machine.incarnation): sealed
        for machine in cluster.running()
        if machine.node is not None
        and not machine.exiting
        and (sealed := machine.node.log.active_base_offset) <= _durable_end(machine)
    }


def _durable_end(machine: Machine) -> int:
    batches = machine.mirror.batches
    held = machine.durable_log.holds(batches)
    return batches[held - 1].end_offset if held else 0


def require_checkpoints(cluster: Cluster, sealed: dict[tuple[int, int], int]) -> None:
    """Require that each checkpoint covers the segments that were `sealed` and committed a while ago, so that the next
    start can distinguish damage in them from the effects of a crash. Nodes whose last writes are still delayed by the
    disk are exempt. Raises InvariantViolation.
    """
    for machine in cluster.running():
        if machine.node is not None and _durable_end(machine) < machine.node.log.end_offset:
            continue
        end_offset = sealed.get((machine.node_id, machine.incarnation), 0)
        saved = machine.disk.durable_bytes(CHECKPOINT, 0, 1000).split()
        known = int(saved[-1]) if saved else 0
        if known < end_offset:
            raise InvariantViolation(
                "sealed segments are known to be committed",
                f"node {machine.node_id} has sealed all segments below {end_offset}, but its checkpoint has {known}",
            )


def require_idle_records(
    interval_ms: float, cluster: Cluster, run_until: Callable[[float], None], committed_end: Callable[[], int]
) -> None:
    """Require that the committed log of an idle cluster grows, by at most one record per idle interval.

    Raises InvariantViolation.
    """
    run_until(cluster.heap.now_ms + MAX_COMMIT_MS)
    before = committed_end()
    # After a record that was committed late, the leader waits for another interval.
    run_until(cluster.heap.now_ms + IDLE_RECORDS * (2 * interval_ms + MAX_COMMIT_MS))
    grown = committed_end() - before
    least_ms = interval_ms / (1.0 + cluster.options.clock_drift)
    # The last request of each client may still be on its way.
    most = IDLE_RECORDS * (2 * interval_ms + MAX_COMMIT_MS) / least_ms + 1 + cluster.options.workload.clients
    if not IDLE_RECORDS <= grown <= most:
        raise InvariantViolation(
            "an idle log grows by one record per idle interval",
            f"it grew by {grown} records, expected {IDLE_RECORDS} to {most:.0f}, one per {interval_ms:.0f} ms",
        )


class LastVoterChange:
    """A voter change while all nodes run: it must succeed, and a leader that it removes must find the next leader
    without waiting for its own election timeout."""

    invariant = "the voters of a healthy cluster can be changed"

    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        run_until: Callable[[float], None],
        is_whole: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._run_until = run_until
        self._is_whole = is_whole
        nodes = list(cluster.machines)
        self._target = sorted(random.sample(nodes, 1 + random.randrange(len(nodes))))
        self._link: RequestConnection | None = None
        self._next_retry_ms = 0.0
        self._last_response = "none"

    def require(self) -> None:
        """Change the voters. Raises InvariantViolation."""
        cluster = self._cluster
        deadline = cluster.heap.now_ms + VOTER_CHANGE_TIMEOUT_MS
        handover = Handover(cluster, self._leader())
        while not self._is_done():
            now = cluster.heap.now_ms
            if now >= deadline:
                raise InvariantViolation(
                    self.invariant,
                    f"{self._target} are not the voters {VOTER_CHANGE_TIMEOUT_MS:.0f} ms after the request; the last "
                    f"response was {self._last_response}",
                )
            if now >= self._next_retry_ms and not self._is_under_way():
                self._send_request()
            self._run_until(now + CHECK_INTERVAL_MS)
            handover.look()

    def _leader(self) -> Machine | None:
        machines = [m for m in self._cluster.running() if m.node is not None and m.node.engine.is_leader]
        return max(machines, key=lambda m: m.node.engine.epoch if m.node is not None else -1, default=None)

    def _is_done(self) -> bool:
        leader = self._leader()
        if leader is None or leader.node is None or not self._is_whole():
            return False
        return list(leader.node.engine.voters.current.ids) == self._target

    def _is_under_way(self) -> bool:
        leader = self._leader()
        return leader is None or leader.node is None or leader.node.engine.voters.target is not None

    def _send_request(self) -> None:
        leader, cluster = self._leader(), self._cluster
        if leader is None:
            return
        self._next_retry_ms = cluster.heap.now_ms + RETRY_INTERVAL_MS
        if self._link is not None:
            self._link.abandon()
        self._link = request_voters(cluster, leader, self._target, self._on_response)

    def _on_response(self, message: Message | None) -> None:
        for topic in getattr(message, "topics", ()):
            for partition in topic.partitions:
                self._last_response = (
                    f"{ErrorCode(partition.error_code).name} {partition.error_message or ''}"
                )


class Handover:
    """The handover from a removed leader to its successor, until the former leader follows the successor."""

    invariant = "a removed leader follows its successor"

    def __init__(self, cluster: Cluster, former: Machine | None) -> None:
        self._cluster = cluster
        self._former = former
        self._epoch = former.node.engine.epoch if former is not None and former.node is not None else -1
        self._ended_ms: float | None = None
        self._next_ms: float | None = None

    def look(self) -> None:
        """Check the handover, repeatedly. Raises InvariantViolation."""
        former, now = self._former, self._cluster.heap.now_ms
        if former is None or former.node is None or self._follows(former):
            return
        if self._ended_ms is None:
            self._ended_ms = now if former.node.engine.role is Role.RESIGNED else None
        elif self._next_ms is None:
            self._next_ms = now if self._has_next() else None
        else:
            # The former leader retries at longer intervals the longer there is no leader.
            patience_ms = 2.0 * (self._next_ms - self._ended_ms) + GRACE_MS
            limit_ms = patience_ms + self._cluster.options.election_timeout_ms / 2
            if now - self._next_ms > limit_ms:
                raise InvariantViolation(
                    self.invariant,
                    f"node {former.node_id} led epoch {self._epoch} until it was removed from the voters; it does "
                    f"not know its successor {now - self._next_ms:.0f} ms after the election",
                )

    def _follows(self, former: Machine) -> bool:
        assert former.node is not None
        engine = former.node.engine
        return engine.leader_id >= 0 and engine.epoch > self._epoch

    def _has_next(self) -> bool:
        nodes: Sequence[Machine] = self._cluster.running()
        return any(
            m.node is not None and m.node.engine.is_leader and m.node.engine.epoch > self._epoch
            for m in nodes
        )


def describe(machine: Machine) -> str:
    """Describe the state of a node in the quorum."""
    if machine.node is None:
        return f"node {machine.node_id} is down"
    engine = machine.node.engine
    return (
        f"node {machine.node_id} is {engine.role} in epoch {engine.epoch} with leader {engine.leader_id}, "
        f"log end {machine.node.log.end_offset}, high watermark {engine.high_watermark}"
    )
