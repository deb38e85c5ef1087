"""Checks that a node that resumes after a pause reads its pending input before it gives up its leader."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.raft.roles import Role
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine

MIN_UNREAD_MS = 20.0
"""Unread data that is older counts as having arrived during a pause."""


class Following(NamedTuple):
    """The state of a node at its last observation."""

    incarnation: int
    role: Role
    epoch: int
    leader_id: int


class PauseProbe:
    """Observes followers that start to campaign. Only reads nodes and does not affect a run."""

    invariant = "a node reads its input before it gives up its leader"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before: dict[int, Following] = {}

    def look(self, machine: Machine) -> None:
        """Check a machine after its event. Raises InvariantViolation."""
        node, process = machine.node, machine.process
        if node is None or process is None or machine.starting:
            return
        engine, before, incarnation = node.engine, self._before.get(machine.node_id), machine.incarnation
        role, epoch, leader_id = engine.role, engine.epoch, engine.leader_id
        if before is not None and (before.incarnation != incarnation or before.epoch != epoch):
            before = None
        if before is not None and before.role is role and before.leader_id == leader_id:
            return
        self._before[machine.node_id] = Following(incarnation, role, epoch, leader_id)
        if before is None or before.role is not Role.FOLLOWER:
            return
        if role is Role.PROSPECTIVE and not process.callback_ms:
            self._gave_up(machine, before)

    def _gave_up(self, machine: Machine, before: Following) -> None:
        leader, now_ms = self._cluster.machines.get(before.leader_id), self._cluster.heap.now_ms
        if leader is None or leader.node is None or leader.starting:
            return
        engine = leader.node.engine
        if not engine.is_leader or engine.epoch != before.epoch:
            return
        for side in self._cluster.network.links:
            unread_ms = now_ms - side.far.stream.oldest_unread_ms
            if side.process is machine.process and side.far.host == leader.host and unread_ms > MIN_UNREAD_MS:
                raise InvariantViolation(
                    self.invariant,
                    f"node {machine.node_id} gave up node {leader.node_id}, which leads epoch {before.epoch}, "
                    f"without reading data from it that arrived {unread_ms:.0f} ms ago",
                )
