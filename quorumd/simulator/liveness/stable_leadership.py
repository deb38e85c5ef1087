"""A cluster without faults elects a leader and keeps it, however busy its nodes are."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.elections import RESIGNATION_FETCH_TIMEOUTS
from quorumd.simulator.cluster import Cluster, Machine

TIMEOUTS_WITHOUT_LEADER = 12.0
"""Longest time without a leader, in sums of an election timeout and a fetch timeout; allows for split votes and
backoff."""
REPLAYS_WITHOUT_LEADER = 2.0
"""Additional time, in replays of the whole log: a node that still catches up after its start does not campaign."""


class LeaderTenure(NamedTuple):
    """The tenure of a leader that was elected without faults."""

    node_id: int
    epoch: int
    since_ms: float
    is_newest: bool
    """Whether no node had a later epoch at the time of the election."""
    ended_ms: float = inf


class StableLeadership:
    """Observes the leadership from the time when faults have ended and all nodes of `core` run."""

    elects = "a cluster without faults elects a leader"
    stays = "a leader reachable by its followers stays leader"

    def __init__(self, cluster: Cluster, core: list[int]) -> None:
        self._cluster = cluster
        self._core = [cluster.machines[node_id] for node_id in core]
        self._incarnations = self._current_incarnations()
        options = cluster.options
        records = max((machine.mirror.batches[-1].end_offset for machine in self._core if machine.mirror.batches),
                      default=0)  # fmt: skip
        # A node that was just booted may be busy with its start, a paused node resumes later, and a node whose disk
        # stalls cannot save a vote.
        awake_ms = [machine.process.busy_until_ms for machine in self._core if machine.process is not None]
        awake_ms += [machine.disk.busy_until_ms for machine in self._core]
        self._deadline_ms = (
            max([cluster.heap.now_ms, *awake_ms])
            + TIMEOUTS_WITHOUT_LEADER * (options.election_timeout_ms + options.fetch_timeout_ms)
            + REPLAYS_WITHOUT_LEADER * records * options.record_ms * options.slowness
        )
        # A connection started while its path was blocked hangs until its requests time out: a leader may miss
        # followers for that long, and resigns within 1.5 fetch timeouts after it.
        longest_request_ms = options.election_timeout_ms * 2 + options.fetch_timeout_ms / 2
        patience_ms = longest_request_ms + RESIGNATION_FETCH_TIMEOUTS * options.fetch_timeout_ms
        self._reached_ms = cluster.heap.now_ms + patience_ms * (1.0 + options.clock_drift)
        leading = [machine.node.engine.epoch for machine in self._core if _leads(machine) and machine.node]
        self._epochs_led = set(leading)
        self._tenure: LeaderTenure | None = None

    def look(self) -> None:
        """Check after an event. Raises InvariantViolation."""
        cluster = self._cluster
        now = cluster.heap.now_ms
        if cluster.voters_changed or self._current_incarnations() != self._incarnations:
            return  # A changed voter set or a restart is a reason for another leader.
        self._note_tenure_end(now)
        for machine in self._core:
            node = machine.node
            if node is not None and _leads(machine) and node.engine.epoch not in self._epochs_led:
                self._on_elected(machine, node.engine.epoch, now)
        if self._tenure is None and not self._epochs_led and now > self._deadline_ms:
            raise InvariantViolation(
                self.elects, f"none of nodes {[m.node_id for m in self._core]} has led for {now:.0f} ms"
            )

    def _note_tenure_end(self, now: float) -> None:
        tenure = self._tenure
        if tenure is not None and tenure.ended_ms == inf:
            machine = self._cluster.machines[tenure.node_id]
            if not _leads(machine) or machine.node is None or machine.node.engine.epoch != tenure.epoch:
                self._tenure = tenure._replace(ended_ms=now)

    def _on_elected(self, machine: Machine, epoch: int, now: float) -> None:
        self._epochs_led.add(epoch)
        before = self._tenure
        # A node that has waited long for a leader may have campaigned before it could learn of this one.
        was_known = before is not None and now - before.since_ms > self._cluster.options.election_timeout_ms
        was_reached = before is not None and before.ended_ms > self._reached_ms
        if before is not None and was_known and was_reached and before.is_newest and epoch > before.epoch:
            raise InvariantViolation(
                self.stays,
                f"node {before.node_id} led epoch {before.epoch} for {now - before.since_ms:.0f} ms, running and "
                f"reachable by every node, but now node {machine.node_id} leads epoch {epoch}",
            )
        newest = max(each.node.engine.epoch for each in self._core if each.node is not None)
        self._tenure = LeaderTenure(machine.node_id, epoch, now, newest <= epoch)

    def _current_incarnations(self) -> list[tuple[int, bool]]:
        return [(machine.incarnation, machine.process is not None) for machine in self._core]


def _leads(machine: Machine) -> bool:
    return machine.node is not None and not machine.starting and machine.node.engine.is_leader
