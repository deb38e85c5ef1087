"""Bounds the time until a node has applied records that it knows to be committed."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine

WITHIN_MS = 500.0
"""Allowance for other work of a node, in addition to the processor time of the records."""
RECORD_COSTS = 4.0
"""Allowance for the records of the whole log, since a snapshot may have to be loaded first, while the node serves
requests in between."""
MAX_GAP_MS = 50.0
"""Longest time between two events that counts as waiting: a node without events may be paused."""


@dataclass(slots=True)
class Backlog:
    """Committed records that a process has not applied."""

    incarnation: int
    end_offset: int
    looked_ms: float
    waited_ms: float = 0.0


class ApplyProbe:
    """A running node soon applies the records that it knows to be committed. Only reads nodes, and does not affect a
    run."""

    invariant = "committed records are applied soon"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._backlogs: dict[int, Backlog] = {}

    def look(self, machine: Machine) -> None:
        """Check a machine after one of its events. Raises InvariantViolation."""
        node, process = machine.node, machine.process
        if node is None or process is None or machine.starting or machine.exiting:
            self._backlogs.pop(machine.node_id, None)
            return
        applied, committed = node.state_machine.applied_offset, node.engine.high_watermark
        if applied >= committed:
            self._backlogs.pop(machine.node_id, None)
            return
        now, known = self._cluster.heap.now_ms, self._backlogs.get(machine.node_id)
        if known is None or known.incarnation != machine.incarnation or applied >= known.end_offset:
            self._backlogs[machine.node_id] = Backlog(machine.incarnation, committed, now)
            return
        if not process.callback_ms:
            known.waited_ms += min(now - known.looked_ms, MAX_GAP_MS)
        known.looked_ms = now
        if known.waited_ms > self._limit_ms(committed):
            raise InvariantViolation(
                self.invariant,
                f"node {machine.node_id} has applied the records below {applied}, and has known for "
                f"{known.waited_ms:.0f} ms that the records below {known.end_offset} are committed",
            )

    def _limit_ms(self, records: int) -> float:
        options = self._cluster.options
        return WITHIN_MS + RECORD_COSTS * records * options.record_ms * options.slowness
